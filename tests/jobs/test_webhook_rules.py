"""Which webhooks may be called, how calls are signed, and when they are tried again."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from proxy.errors import JobRefused
from proxy.jobs.webhook_rules import is_inside, retry_in_secs, signature, target_of

ALLOWED = ("hooks.example.com", "*.Example.org")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://hooks.example.com", ("http", "hooks.example.com", 80, "hooks.example.com", "/")),
        (
            "https://Hooks.Example.com./a?b=1",
            ("https", "hooks.example.com", 443, "hooks.example.com", "/a?b=1"),
        ),
        ("https://a.b.example.org:8443/x", ("https", "a.b.example.org", 8443, "a.b.example.org:8443", "/x")),
    ],
)
def test_allowed(url: str, expected: tuple[object, ...]) -> None:
    target = target_of(url, ALLOWED, may_be_plain=True)
    assert (target.scheme, target.host, target.port, target.authority, target.path) == expected


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/",  # the domain itself is not below it
        "https://badexample.org/",
        "https://hooks.example.com.evil.net/",
        "https://evil.net/?hooks.example.com",
        "https://hooks.example.com@evil.net/",
        "https://user:word@hooks.example.com/",
        "ftp://hooks.example.com/",
        "hooks.example.com/",
        "https:///x",
        "https://hooks.example.com:0/",
        "https://hooks.example.com:99999/",
        "https://hooks.example.com/#part",
        "http://[::1/",
        "http://127.0.0.1/",
        # the resolver would raise UnicodeError
        f"https://{'a' * 64}.example.org/",
        "https://a..example.org/",
        "https://ü.example.org/",
        f"https://{'a.' * 130}example.org/",
    ],
)
def test_refused(url: str) -> None:
    with pytest.raises(JobRefused):
        target_of(url, ALLOWED, may_be_plain=True)


def test_nothing_is_allowed_unless_it_is_named() -> None:
    with pytest.raises(JobRefused, match="webhook_allowed_hosts is empty"):
        target_of("https://hooks.example.com/", (), may_be_plain=True)
    assert target_of("http://[2001:db8::1]:80/", ("*",), may_be_plain=True).authority == "[2001:db8::1]:80"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::a00:1",
        "2002:a00:1::1", "::10.0.0.1", "2001:db8::1", "fec0::1", "4000::1", "::ffff:127.0.0.1", "240.0.0.1",
    ],
)  # fmt: skip
def test_inside(address: str) -> None:
    assert is_inside(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_outside(address: str) -> None:
    assert not is_inside(address)


def test_the_signature_is_that_of_standard_webhooks() -> None:
    secret = bytes(range(32))
    now = int(datetime.now(UTC).timestamp())
    body = '{"type": "job.succeeded", "名": 1}'.encode()
    headers = {
        "webhook-id": "job_1",
        "webhook-timestamp": str(now),
        "webhook-signature": signature(secret, "job_1", now, body),
    }
    verifier = Webhook("whsec_" + base64.b64encode(secret).decode())
    assert verifier.verify(body, headers)["type"] == "job.succeeded"
    with pytest.raises(Exception, match="No matching signature"):
        verifier.verify(body + b" ", headers)


@pytest.mark.parametrize("entry", ["http://hooks.example.com", "HTTP://*.example.com"])
def test_http_only_where_it_is_named_or_private_is_allowed(entry: str) -> None:
    url = "http://hooks.example.com/"
    with pytest.raises(JobRefused, match="by https only"):
        target_of(url, ("hooks.example.com",), may_be_plain=False)
    assert target_of(url, ("hooks.example.com", entry), may_be_plain=False).port == 80
    assert target_of("https://hooks.example.com/", (entry,), may_be_plain=False).port == 443


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_tried_for_a_day(chance: float) -> None:
    delays: list[float] = []
    while (delay := retry_in_secs(len(delays) + 1, chance)) is not None:
        delays.append(delay)
    assert delays == sorted(delays)
    assert delays[0] == pytest.approx(5 * (0.9 + 0.2 * chance))
    assert sum(delays) == pytest.approx(86400, rel=0.12)
