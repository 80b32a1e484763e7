"""Who is there, who leads, and what becomes of the jobs of those who are gone."""

from __future__ import annotations

import asyncio

import pytest

from proxy.errors import LeaseLost
from proxy.jobs.job import Policy, Replica, State
from proxy.jobs.store import Store
from tests.jobs.databases import Database
from tests.jobs.making import ANSWERED, A, B, claim_one, run, state_of, submit


async def test_the_smallest_id_of_those_that_report_leads(database: Database) -> None:
    store = await database.open()
    assert (await store.report(B)).is_leader
    standing = await store.report(A)
    assert (standing.is_leader, standing.replicas) == (True, (A.id, B.id))
    assert not (await store.report(B)).is_leader
    await database.age("fifo_replicas", "reported_at", 46, f"id = '{A.id}'")
    assert (await store.report(B)).replicas == (B.id,)
    assert (await store.report(A)).is_leader


async def test_a_new_start_ends_the_leases_of_the_earlier_one_at_once(store: Store) -> None:
    earlier, later = Replica("x-2", "x"), Replica("x-1", "x")
    await store.report(earlier)
    waiting, sent = await submit(store, earlier.id), await submit(store, earlier.id)
    await store.mark_sent(sent, "node")
    await store.report(B)
    assert await store.recover(10) == []
    standing = await store.report(later)
    assert standing.replicas == (B.id, later.id)
    recovered = await store.recover(10)
    assert [(job.id, job.state) for job in recovered] == [
        (waiting.job_id, State.QUEUED),
        (sent.job_id, State.UNKNOWN),
    ]
    assert (await claim_one(store, later.id)).job.id == waiting.job_id


async def test_the_process_that_reports_keeps_its_jobs(database: Database) -> None:
    store = await database.open()
    await store.report(A)
    lease = await submit(store)
    await database.age("fifo_replicas", "reported_at", 119)
    assert await store.recover(10) == []
    await store.report(A)
    await database.age("fifo_replicas", "reported_at", 119)
    assert await store.recover(10) == []
    await run(store, lease)


async def test_a_dead_replicas_jobs_by_how_far_they_came(database: Database) -> None:
    store = await database.open()
    await store.report(A)
    waiting = await submit(store)
    once = await submit(store)
    retry = await submit(store, policy=Policy.RETRY)
    twice = await submit(store, policy=Policy.RETRY)
    done = await submit(store)
    unsent = await submit(store)
    for lease in (once, retry, twice, unsent):
        await store.mark_sent(lease, "node")
    await store.requeue(twice, reached_node=True)
    await store.mark_sent(twice, "node")
    await store.requeue(unsent, reached_node=False)
    await run(store, done)
    await store.report(B)
    await database.bury(A.id)
    recovered = {job.id: job for job in await store.recover(10)}
    assert {job_id: job.state for job_id, job in recovered.items()} == {
        waiting.job_id: State.QUEUED,
        once.job_id: State.UNKNOWN,
        retry.job_id: State.QUEUED,
        twice.job_id: State.FAILED,
        unsent.job_id: State.QUEUED,
    }
    assert recovered[once.job_id].outcome == recovered[twice.job_id].outcome == "unknown"
    assert recovered[once.job_id].error is not None
    assert await store.recover(10) == []
    claims = await store.claim(B.id, 10)
    assert [claim.job.id for claim in claims] == [waiting.job_id, retry.job_id, unsent.job_id]
    for lease in (waiting, once, retry, twice, unsent):
        with pytest.raises(LeaseLost):
            await store.finish(lease, ANSWERED)
    assert await state_of(store, done.job_id) is State.SUCCEEDED


async def test_a_retried_job_is_sent_at_most_twice(database: Database) -> None:
    store = await database.open()
    lease = await submit(store, None, policy=Policy.RETRY)
    sends = 0
    for number in range(4):
        replica = Replica(f"r{number}", f"r{number}")
        await store.report(replica)
        for claim in await store.claim(replica.id, 1):
            await store.mark_sent(claim.lease, "node")
            sends += 1
        await database.bury(replica.id)
        await store.recover(10)
    assert sends == 2
    assert await state_of(store, lease.job_id) is State.FAILED


async def test_recovery_is_in_steps_and_shared(database: Database) -> None:
    stores = await database.stores(3)
    await stores[0].report(A)
    await asyncio.gather(*(submit(stores[0]) for _ in range(50)))
    await database.bury(A.id)
    await asyncio.gather(*(store.report(Replica(f"r{n}", f"r{n}")) for n, store in enumerate(stores)))
    assert len(await stores[0].recover(20)) == 20
    found = await asyncio.gather(*(store.recover(100) for store in stores))
    ids = [job.id for jobs in found for job in jobs]
    assert len(ids) == len(set(ids)) == 30
    assert len(await stores[0].claim("r0", 100)) == 50


async def test_one_that_comes_back_before_anybody_noticed_goes_on(database: Database) -> None:
    store = await database.open()
    await store.report(A)
    lease = await submit(store)
    await store.mark_sent(lease, "node")
    await database.bury(A.id)
    await store.finish(lease, ANSWERED)
    assert await store.recover(10) == []


async def test_a_finish_and_a_recovery_at_once(database: Database) -> None:
    """Whichever is first is the end of it."""
    stores = await database.stores(2)
    for _ in range(20):
        await stores[0].report(A)
        lease = await submit(stores[0])
        await stores[0].mark_sent(lease, "node")
        await database.bury(A.id)
        finished, recovered = await asyncio.gather(
            stores[0].finish(lease, ANSWERED), stores[1].recover(10), return_exceptions=True
        )
        assert not isinstance(recovered, BaseException)
        is_answered = not isinstance(finished, BaseException)
        assert [job.id for job in recovered] == ([] if is_answered else [lease.job_id])
        state = await state_of(stores[0], lease.job_id)
        assert state is (State.SUCCEEDED if is_answered else State.UNKNOWN)
        assert (await stores[0].result(lease.job_id) is not None) == is_answered


async def test_replicas_that_are_long_gone_are_forgotten(database: Database) -> None:
    store = await database.open()
    await store.report(A)
    await database.age("fifo_replicas", "reported_at", 100_000)
    await store.report(B)
    await store.sweep(10)
    assert await database.execute("SELECT id FROM fifo_replicas") == [(B.id,)]
