"""What is kept, for how long, and that cleaning up is done in small steps and leaves nothing behind."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from proxy.errors import BodyGone
from proxy.jobs.job import Bytes, Ending, Result, State, StoreSettings
from proxy.jobs.store import Store
from tests.jobs.databases import Database, SqliteDatabase
from tests.jobs.making import ANSWERED, REQUEST, A, B, keyed, run, submit, whole

LARGE = Bytes(bytes(300_000))
LARGE_ANSWER = Ending(State.SUCCEEDED, "answered", Result(200, body=LARGE))
DAY = StoreSettings().retention_secs


async def large_bodies(database: Database) -> int:
    """How many are stored, whoever they belong to."""
    if isinstance(database, SqliteDatabase):
        return len(list(database.path.with_name("jobs.db.bodies").iterdir()))
    ((bodies, with_chunks),) = await database.execute(
        "SELECT (SELECT count(*) FROM fifo_bodies), (SELECT count(DISTINCT key) FROM fifo_chunks)"
    )
    assert bodies == with_chunks
    return int(bodies)


async def test_a_result_is_kept_then_known_of_then_forgotten(database: Database) -> None:
    store = await database.open()
    small = await store.submit(keyed("k"), A.id)
    large = await submit(store, body=LARGE)
    assert small.lease is not None
    await run(store, small.lease)
    await run(store, large, LARGE_ANSWER)
    result = await store.result(large.job_id)
    assert result is not None

    await database.age("fifo_jobs", "finished_at", DAY - 5)
    swept = await store.sweep(10)
    assert (swept.purged, swept.deleted) == (0, 0)
    assert await large_bodies(database) == 1  # the request's is of no use any longer
    assert len(await whole(store, result.body)) == 300_000

    await database.age("fifo_jobs", "finished_at", 10)
    assert (await store.sweep(10)).purged == 2
    assert await large_bodies(database) == 0
    for job_id in (small.job.id, large.job_id):
        job = await store.get(job_id)
        assert job is not None
        assert (job.state, job.is_purged) == (State.SUCCEEDED, True)
        assert await store.result(job_id) is None
    with pytest.raises(BodyGone):
        await whole(store, result.body)
    counts = await store.counts()
    assert (counts.by_state[State.SUCCEEDED], counts.stored_bytes) == (0, 0)

    await database.age("fifo_jobs", "purged_at", DAY + 1)
    assert (await store.sweep(10)).deleted == 2
    assert await store.get(small.job.id) is None


async def test_a_key_is_free_again_when_its_result_is_gone(database: Database) -> None:
    store = await database.open()
    first = await store.submit(keyed("k"), A.id)
    assert first.lease is not None
    await run(store, first.lease)
    await database.age("fifo_jobs", "finished_at", DAY + 1)
    await store.sweep(10)
    again = await store.submit(keyed("k", b"another request"), A.id)
    assert again.is_new
    assert again.job.id != first.job.id


async def test_steps_are_bounded_and_tell_that_there_is_more(database: Database) -> None:
    store = await database.open()
    leases = await asyncio.gather(*(submit(store) for _ in range(25)))
    for lease in leases:
        await run(store, lease)
    await asyncio.gather(*(submit(store, wait_limit_secs=1e-6) for _ in range(25)))
    await database.age("fifo_jobs", "finished_at", DAY + 1)
    steps = [await store.sweep(10) for _ in range(4)]
    assert [step.purged for step in steps] == [10, 10, 5, 0]
    assert [len(step.expired) for step in steps] == [10, 10, 5, 0]
    assert [step.has_more for step in steps] == [True, True, False, False]
    expired = [job.position for step in steps for job in step.expired]
    assert expired == sorted(expired)
    await database.age("fifo_jobs", "purged_at", DAY + 1)
    assert [(await store.sweep(10)).deleted for _ in range(3)] == [10, 10, 5]


async def test_what_waits_and_runs_is_never_cleaned_up(database: Database) -> None:
    store = await database.open()
    waiting, running = await submit(store, body=LARGE), await submit(store, body=LARGE)
    await store.mark_sent(running, "node")
    for column in ("created_at", "sent_at"):
        await database.age("fifo_jobs", column, 10 * DAY)
    swept = await store.sweep(10)
    assert (swept.purged, swept.deleted, swept.expired) == (0, 0, ())
    request = await store.load(waiting.job_id)
    assert request is not None
    assert len(await whole(store, request.body)) == 300_000
    await run(store, waiting)
    await store.finish(running, ANSWERED)


async def test_bodies_of_calls_that_came_to_nothing_go(database: Database) -> None:
    store = await database.open()
    request = replace(keyed("k"), body=LARGE)
    accepted = await store.submit(request, A.id)
    assert not (await store.submit(request, A.id)).is_new
    lease = accepted.lease
    assert lease is not None
    await store.finish(lease, LARGE_ANSWER)
    await store.finish(lease, LARGE_ANSWER)
    result = await store.result(lease.job_id)
    assert result is not None
    await database.age("fifo_bodies", "stored_at", 3601)
    await store.sweep(10)
    assert await large_bodies(database) == 1
    assert len(await whole(store, result.body)) == 300_000


async def test_only_due_webhooks_are_taken_and_again_unless_done(database: Database) -> None:
    store = await database.open()
    url = "https://example.com/hook?secret=1"
    leases = [await submit(store, webhook_url=url) for _ in range(3)]
    silent = await submit(store)
    assert await store.take_webhooks(10, 60) == []
    for lease in (*leases, silent):
        await run(store, lease)
    first = await store.take_webhooks(2, 60)
    assert [(each.job.id, each.url, each.attempts) for each in first] == [
        (lease.job_id, url, 1) for lease in leases[:2]
    ]
    assert first[0].job.state is State.SUCCEEDED
    (third,) = await store.take_webhooks(10, 60)
    assert third.job.id == leases[2].job_id
    assert await store.take_webhooks(10, 60) == []

    await store.webhook_done(leases[0].job_id)
    await store.webhook_failed(leases[1].job_id, "503", 30)
    await store.webhook_failed(leases[2].job_id, "410", None)
    assert await store.take_webhooks(10, 60) == []
    await database.age("fifo_jobs", "webhook_due_at", 31)
    (again,) = await store.take_webhooks(10, 60)
    assert (again.job.id, again.attempts) == (leases[1].job_id, 2)
    # Whoever took it is gone without a word: it is due again.
    await database.age("fifo_jobs", "webhook_due_at", 61)
    assert [each.attempts for each in await store.take_webhooks(10, 60)] == [3]


async def test_every_end_is_told(database: Database) -> None:
    store = await database.open()
    url = "https://example.com/"
    cancelled, expired = await submit(store, webhook_url=url), await submit(store, webhook_url=url)
    lost, failed = await submit(store, webhook_url=url), await submit(store, webhook_url=url)
    await store.cancel(cancelled.job_id)
    await database.execute(f"UPDATE fifo_jobs SET wait_ends_at = 1 WHERE id = '{expired.job_id}'")
    await store.sweep(10)
    await store.finish(failed, Ending(State.FAILED, "not_sent", error="no connection"))
    await store.report(A)
    await store.mark_sent(lost, "node")
    await database.bury(A.id)
    await store.report(B)
    await store.recover(10)
    due = {delivery.job.id: delivery.job.state for delivery in await store.take_webhooks(10, 60)}
    assert due == {
        cancelled.job_id: State.CANCELLED,
        expired.job_id: State.EXPIRED,
        lost.job_id: State.UNKNOWN,
        failed.job_id: State.FAILED,
    }


async def test_webhooks_are_taken_by_one(database: Database) -> None:
    stores = await database.stores(3)
    for lease in [await submit(stores[0], webhook_url="https://example.com/") for _ in range(30)]:
        await run(stores[0], lease)
    taken = await asyncio.gather(*(stores[n % 3].take_webhooks(7, 60) for n in range(6)))
    ids = [each.job.id for some in taken for each in some]
    assert len(ids) == len(set(ids)) == 30


async def test_a_deleted_job_is_not_due(store: Store) -> None:
    await store.webhook_done("none")
    await store.webhook_failed("none", "x", 1)
    assert (await store.submit(REQUEST, None)).is_new
