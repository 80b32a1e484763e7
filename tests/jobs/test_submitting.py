"""Handing in: what comes out is what went in, keys are used once, and many calls share a commit."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace

import pytest

from proxy.errors import IdempotencyConflict, StoreFull
from proxy.jobs.job import Bytes, Policy, State, StoreSettings
from proxy.jobs.store import Store
from tests.jobs.databases import Database
from tests.jobs.making import ANSWERED, REQUEST, A, B, claim_one, keyed, run, state_of, submit, whole


async def test_a_request_comes_back_byte_for_byte(store: Store) -> None:
    fields = [(b"X", b"1"), (b"x", b"\xff\xfe: a"), (b"X", b""), (b"Cookie", b"a=b; c=d")]
    trailers = [(b"Digest", b"abc")]
    accepted = await store.submit(
        replace(REQUEST, fields=fields, trailers=trailers, body=Bytes(bytes(range(256)))), None
    )
    request = (await claim_one(store)).request
    assert (request.method, request.target) == (REQUEST.method, REQUEST.target)
    assert request.fields == tuple(fields)
    assert request.trailers == tuple(trailers)
    assert await whole(store, request.body) == bytes(range(256))
    assert await store.load(accepted.job.id) == request


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 262144, 262145, 5_000_000])
async def test_bodies_of_any_size(store: Store, size: int) -> None:
    body, answer = secrets.token_bytes(size), secrets.token_bytes(size)
    await submit(store, None, body=Bytes(body))
    claim = await claim_one(store)
    assert claim.job.request_bytes == size
    assert await whole(store, claim.request.body, 70_001) == body
    await store.mark_sent(claim.lease, "node")
    ending = replace(ANSWERED, result=replace(ANSWERED.result, body=Bytes(answer)))  # type: ignore[type-var]
    job = await store.finish(claim.lease, ending)
    assert job.result_bytes == size
    result = await store.result(job.id)
    assert result is not None
    assert await whole(store, result.body) == answer
    middle = size // 3
    assert await store.read(result.body, middle, 1000) == answer[middle : middle + 1000]
    assert await store.read(result.body, size, 10) == b""


async def test_what_is_known_of_a_new_job(store: Store) -> None:
    before = (await store.submit(REQUEST, A.id)).job
    accepted = await store.submit(
        replace(
            keyed("k"),
            request_id="r",
            client="192.0.2.1",
            policy=Policy.RETRY,
            webhook_url="https://example.com/",
            wait_limit_secs=60,
        ),
        A.id,
    )
    job = accepted.job
    assert job == await store.get(job.id)
    assert accepted.lease is not None
    assert (accepted.lease.job_id, accepted.lease.owner) == (job.id, A.id)
    assert job.state is State.QUEUED
    assert job.position > before.position
    assert (job.policy, job.request_id, job.client, job.owner) == (Policy.RETRY, "r", "192.0.2.1", A.id)
    assert (job.idempotency_key, job.has_webhook) == ("k", True)
    assert job.wait_ends_at is not None
    assert job.wait_ends_at - job.created_at == pytest.approx(60)
    assert (job.sends, job.sent_at, job.finished_at, job.outcome) == (0, None, None, None)


async def test_ids_cannot_be_guessed(store: Store) -> None:
    ids = {(await store.submit(REQUEST, A.id)).job.id for _ in range(20)}
    assert len(ids) == 20
    assert min(map(len, ids)) >= 22  # 128 bits in base 64
    assert await store.get("0") is None


@pytest.mark.parametrize(
    "field", [(b"a:b", b"c"), (b"a\nb", b"c"), (b"a", b"b\r\nc: d"), (b"a", b"b\nc"), (b"a\r", b"c")]
)
async def test_a_field_that_would_not_come_back_is_refused(store: Store, field: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="not a header field"):
        await store.submit(replace(REQUEST, fields=[field]), A.id)
    assert (await store.counts()).by_state[State.QUEUED] == 0


async def test_the_same_key_joins_the_same_job(store: Store) -> None:
    first = await store.submit(keyed("k"), A.id)
    again = await store.submit(keyed("k"), B.id)
    other = await store.submit(keyed("l"), A.id)
    assert (first.is_new, again.is_new, other.is_new) == (True, False, True)
    assert again.job == first.job
    assert again.lease is None
    assert first.lease is not None
    await run(store, first.lease)
    late = await store.submit(keyed("k"), A.id)
    assert (late.job.id, late.job.state) == (first.job.id, State.SUCCEEDED)
    with pytest.raises(IdempotencyConflict):
        await store.submit(keyed("k", b"other"), A.id)
    assert await state_of(store, first.job.id) is State.SUCCEEDED


async def test_one_of_many_at_once_with_the_same_key_is_new(database: Database) -> None:
    stores = await database.stores(2)
    for large in (False, True):
        request = replace(keyed(f"k{large}"), body=Bytes(bytes(100_000 if large else 10)))
        accepted = await asyncio.gather(*(stores[n % 2].submit(request, A.id) for n in range(20)))
        assert sum(each.is_new for each in accepted) == 1
        assert len({each.job.id for each in accepted}) == 1
    counts = await stores[0].counts()
    assert counts.by_state[State.QUEUED] == 2
    assert counts.stored_bytes == 100_010


async def test_a_key_survives_the_process(database: Database) -> None:
    first = await (await database.open()).submit(keyed("k"), A.id)
    for store in database._stores:
        await store.close()
    again = await (await database.open()).submit(keyed("k"), A.id)
    assert (again.is_new, again.job.id) == (False, first.job.id)


async def test_accepted_in_the_order_of_the_calls(store: Store) -> None:
    accepted = await asyncio.gather(*(store.submit(REQUEST, A.id) for _ in range(300)))
    positions = [each.job.position for each in accepted]
    assert positions == sorted(set(positions))


async def test_past_the_limit_nothing_is_accepted_but_results_are(database: Database) -> None:
    store = await database.open(StoreSettings(max_stored_bytes=1000))
    lease = await submit(store, body=Bytes(bytes(600)))
    with pytest.raises(StoreFull, match="max_stored_bytes"):
        await store.submit(replace(REQUEST, body=Bytes(bytes(600))), A.id)
    ending = replace(ANSWERED, result=replace(ANSWERED.result, body=Bytes(bytes(5000))))  # type: ignore[type-var]
    await run(store, lease, ending)
    with pytest.raises(StoreFull):
        await submit(store)
    store.settings = replace(store.settings, max_stored_bytes=10_000)
    await submit(store)
    await store.report(A)  # counts anew
    assert (await store.counts()).stored_bytes == 5004


async def test_one_that_cannot_be_stored_does_not_take_others_with_it(store: Store) -> None:
    """They share a transaction."""
    wrong = replace(REQUEST, request_id="\ud800")  # cannot be encoded
    requests = [REQUEST, wrong, REQUEST, wrong, REQUEST]
    answers = await asyncio.gather(*(store.submit(r, A.id) for r in requests), return_exceptions=True)
    assert [isinstance(answer, ValueError) for answer in answers] == [False, True, False, True, False]
    assert (await store.counts()).by_state[State.QUEUED] == 3
