"""What a client asks for: read as RFC 7240 and the draft of Idempotency-Key say, and kept from the node."""

from __future__ import annotations

import pytest

from proxy.errors import JobRefused
from proxy.http.message import Field, Request, check_request
from proxy.http.peer import Peer
from proxy.jobs.job import Bytes, Policy
from proxy.jobs.preference import Wish, identity, wish_of

PEER = Peer("192.0.2.1", scheme=b"http", is_trusted=False, pseudonym=b"p")


def request(*fields: Field, target: bytes = b"/x") -> Request:
    return check_request(
        b"POST",
        target,
        "1.1",
        [(b"Host", b"h"), *fields],
        PEER,
        b"id",
        max_header_bytes=9999,
        max_body_bytes=99,
    )


def wish(*fields: Field) -> Wish | None:
    return wish_of(request(*fields))


def prefer(*values: bytes) -> Wish:
    found = wish(*((b"Prefer", value) for value in values))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("values", "wait_secs"),
    [
        ([b"respond-async"], None),
        ([b"respond-async, wait=10"], 10),
        ([b"Respond-Async", b"WAIT = 10"], 10),
        ([b'wait="7";why=x, respond-async'], 7),
        ([b"respond-async, wait=3, wait=4"], 3),  # the first one counts
        ([b"respond-async, wait=soon"], None),
        ([b"respond-async, wait=-1"], None),
        ([b"respond-async, wait=99999999999"], 86400),
    ],
)
def test_how_long_it_waits(values: list[bytes], wait_secs: float | None) -> None:
    assert prefer(*values).wait_secs == wait_secs


@pytest.mark.parametrize(
    "value", [b"wait=10", b"x-respond-async", b'note="a, respond-async"', b"respond-asynchronous"]
)
def test_what_is_no_such_wish(value: bytes) -> None:
    assert wish((b"Prefer", value)) is None


def test_a_prefer_of_this_hop_only_is_nobody_elses() -> None:
    made = request((b"Connection", b"prefer"), (b"Prefer", b"respond-async"))
    assert not made.may_be_job
    assert b"respond-async" not in made.head_for(None)


def test_the_node_gets_what_is_not_ours() -> None:
    found = wish(
        (b"Prefer", b"handling=lenient, respond-async, wait=1"),
        (b"Prefer", b'note="a, b"'),
        (b"Job-Policy", b"retry"),
        (b"X-Two", b"1"),
        (b"x-two", b"2"),
        (b"Idempotency-Key", b'"k"'),
        (b"Webhook-Url", b"https://example.com/"),
    )
    assert found is not None
    kept = [
        field
        for field in found.fields
        if not field[0].lower().startswith((b"x-forwarded", b"forwarded", b"via"))
    ]
    assert kept == [
        (b"Host", b"h"),
        (b"X-Two", b"1"),
        (b"x-two", b"2"),
        (b"Idempotency-Key", b'"k"'),
        (b"X-Request-Id", b"id"),
        (b"Prefer", b'handling=lenient, note="a, b"'),
    ]
    assert (found.policy, found.key, found.webhook_url) == (Policy.RETRY, b"k", "https://example.com/")


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b'"a b"', b"a b"),
        (rb'"a\"\\b"', rb'a"\b'),
        (b"bare-1", b"bare-1"),
        (b'"%s"' % (b"x" * 255), b"x" * 255),
    ],
)
def test_keys(value: bytes, key: bytes) -> None:
    found = wish((b"Prefer", b"respond-async"), (b"Idempotency-Key", value))
    assert found is not None
    assert found.key == key


@pytest.mark.parametrize(
    "fields",
    [
        [(b"Idempotency-Key", b"")],
        [(b"Idempotency-Key", b'""')],
        [(b"Idempotency-Key", b'"a')],
        [(b"Idempotency-Key", b"x" * 256)],
        [(b"Idempotency-Key", b"\xe4")],
        [(b"Idempotency-Key", b"a"), (b"Idempotency-Key", b"a")],
        [(b"Job-Policy", b"twice")],
        [(b"Webhook-Url", b"http://\xe4/")],
        [(b"Webhook-Url", b"http://a b/")],
    ],
)
def test_what_makes_no_sense(fields: list[Field]) -> None:
    with pytest.raises(JobRefused):
        wish((b"Prefer", b"respond-async"), *fields)


def test_which_requests_are_the_same() -> None:
    one = identity(b"k", request(), Bytes(b"body"))
    assert identity(b"k", request((b"X-Other", b"1")), Bytes(b"body")) == one
    assert identity(b"k", request(), Bytes(b"bodies")).fingerprint != one.fingerprint
    assert identity(b"k", request(target=b"/y"), Bytes(b"body")).fingerprint != one.fingerprint
    apart = identity(b"k", request((b"Authorization", b"Bearer s3cret")), Bytes(b"body"))
    assert apart.key != one.key
    assert "s3cret" not in apart.key
