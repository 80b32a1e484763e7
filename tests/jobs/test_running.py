"""From the line to an end: what each step promises, and what whoever has lost a job can still do to it: nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from proxy.errors import LeaseLost
from proxy.jobs.job import Ending, JobLease, Policy, State
from proxy.jobs.store import Store
from tests.jobs.databases import Database
from tests.jobs.making import ANSWER, ANSWERED, A, B, claim_one, run, state_of, submit, whole

UNKNOWN = Ending(State.UNKNOWN, "unknown", error="the node broke off")


async def test_claims_are_oldest_first_and_no_more_than_asked_for(store: Store) -> None:
    jobs = [(await submit(store, None)).job_id for _ in range(5)]
    first = await store.claim(A.id, 2)
    second = await store.claim(B.id, 10)
    assert [claim.job.id for claim in first] == jobs[:2]
    assert [claim.job.id for claim in second] == jobs[2:]
    assert {claim.job.owner for claim in first} == {claim.lease.owner for claim in first} == {A.id}
    assert await store.claim(A.id, 10) == []


async def test_what_has_an_owner_is_not_claimed(store: Store) -> None:
    await submit(store, A.id)
    assert await store.claim(A.id, 1) == await store.claim(B.id, 1) == []


async def test_claimers_at_once_never_get_the_same_job(database: Database) -> None:
    stores = await database.stores(3)
    await asyncio.gather(*(submit(stores[0], None) for _ in range(150)))
    claimed: Counter[str] = Counter()

    async def claimer(number: int) -> None:
        while claims := await stores[number % 3].claim(f"r{number}", 4):
            positions = [claim.job.position for claim in claims]
            assert positions == sorted(positions)
            claimed.update(claim.job.id for claim in claims)

    await asyncio.gather(*(claimer(number) for number in range(9)))
    assert len(claimed) == claimed.total() == 150


async def test_a_run_and_its_result(store: Store) -> None:
    lease = await submit(store)
    await store.mark_sent(lease, "node-7")
    running = await store.get(lease.job_id)
    assert running is not None
    assert (running.state, running.sends, running.node) == (State.RUNNING, 1, "node-7")
    assert running.sent_at is not None
    assert await store.result(lease.job_id) is None
    finished = await store.finish(lease, ANSWERED)
    assert finished == await store.get(lease.job_id)
    assert (finished.state, finished.outcome) == (State.SUCCEEDED, "answered")
    assert finished.finished_at is not None
    assert running.created_at <= running.sent_at <= finished.finished_at
    assert (finished.result_status, finished.result_bytes) == (200, 6)
    result = await store.result(lease.job_id)
    assert result is not None
    assert (result.status, result.fields) == (ANSWER.status, tuple(ANSWER.fields))
    assert await whole(store, result.body) == b"answer"
    assert await store.load(lease.job_id) is None


@pytest.mark.parametrize(
    "ending",
    [
        UNKNOWN,
        Ending(State.FAILED, "unknown", replace(ANSWER, status=502), "no answer"),
        Ending(State.FAILED, "not_sent", error="a node's words: \0 \ud800"),
        Ending(State.CANCELLED, "unknown"),
    ],
)
async def test_other_ends(store: Store, ending: Ending) -> None:
    lease = await submit(store)
    job = await store.finish(lease, ending)
    assert (job.state, job.outcome) == (ending.state, ending.outcome)
    assert (job.error is None) == (ending.error is None)
    result = await store.result(lease.job_id)
    assert (None if result is None else result.status) == (ending.result and ending.result.status)


async def test_each_step_may_be_repeated_by_a_caller_that_did_not_hear_of_it(store: Store) -> None:
    lease = await submit(store)
    for _ in range(2):
        await store.mark_sent(lease, "node")
    for _ in range(2):
        await store.requeue(lease, reached_node=False)
    job = await store.get(lease.job_id)
    assert job is not None
    assert job.sends == 0
    await store.mark_sent(lease, "node")
    assert await store.finish(lease, ANSWERED) == await store.finish(lease, ANSWERED)
    with pytest.raises(LeaseLost):
        await store.finish(lease, UNKNOWN)
    assert await state_of(store, lease.job_id) is State.SUCCEEDED


@pytest.mark.parametrize(("reached_node", "sends"), [(False, 0), (True, 1)])
async def test_back_to_its_place_with_the_lease_kept(store: Store, reached_node: bool, sends: int) -> None:
    lease, later = await submit(store), await submit(store)
    await store.mark_sent(lease, "node")
    await store.requeue(lease, reached_node=reached_node)
    job = await store.get(lease.job_id)
    assert job is not None
    assert (job.state, job.sends) == (State.QUEUED, sends)
    assert [await store.place(each.job_id) for each in (lease, later)] == [1, 2]
    assert await store.claim(B.id, 10) == []
    await run(store, lease)
    job = await store.get(lease.job_id)
    assert job is not None
    assert job.sends == sends + 1


async def test_released_jobs_keep_their_place(store: Store) -> None:
    leases = [await submit(store) for _ in range(4)]
    await store.mark_sent(leases[2], "node")
    await store.cancel(leases[3].job_id)
    await store.release(leases)
    assert await state_of(store, leases[2].job_id) is State.RUNNING
    claims = await store.claim(B.id, 10)
    assert [claim.job.id for claim in claims] == [lease.job_id for lease in leases[:2]]
    await assert_lost(store, leases[0])
    await store.release(leases)  # lost by now: nothing happens
    assert [(await store.get(claim.job.id)).owner for claim in claims] == [B.id] * 2  # type: ignore[union-attr]


async def assert_lost(store: Store, lease: JobLease) -> None:
    before = await store.get(lease.job_id)
    with pytest.raises(LeaseLost):
        await store.mark_sent(lease, "node")
    with pytest.raises(LeaseLost):
        await store.requeue(lease, reached_node=False)
    with pytest.raises(LeaseLost):
        await store.finish(lease, UNKNOWN)
    assert await store.get(lease.job_id) == before


async def test_cancelled_while_queued(store: Store) -> None:
    lease = await submit(store)
    job = await store.cancel(lease.job_id)
    assert job is not None
    assert (job.state, job.outcome) == (State.CANCELLED, "not_sent")
    await assert_lost(store, lease)
    assert await store.cancel(lease.job_id) == job
    assert await store.cancel("none") is None


async def test_a_running_job_is_not_cancelled(store: Store) -> None:
    lease = await submit(store)
    await store.mark_sent(lease, "node")
    job = await store.cancel(lease.job_id)
    assert job is not None
    assert job.state is State.RUNNING
    await store.finish(lease, ANSWERED)


async def test_cancelled_or_sent_but_never_both(database: Database) -> None:
    stores = await database.stores(2)
    for _ in range(20):
        lease = await submit(stores[0])
        sent, cancelled = await asyncio.gather(
            stores[0].mark_sent(lease, "node"), stores[1].cancel(lease.job_id), return_exceptions=True
        )
        state = await state_of(stores[0], lease.job_id)
        assert state is (State.RUNNING if sent is None else State.CANCELLED)
        assert isinstance(sent, LeaseLost | None)
        assert not isinstance(cancelled, BaseException)


async def test_of_two_ends_one_is_refused(database: Database) -> None:
    """A worker that was taken for dead comes back while another runs its job again."""
    stores = await database.stores(2)
    lease = await submit(stores[0], policy=Policy.RETRY)
    await stores[0].report(A)
    await stores[0].mark_sent(lease, "node")
    await database.bury(A.id)
    await stores[1].report(B)
    await stores[1].recover(10)
    claim = await claim_one(stores[1], B.id)
    await stores[1].mark_sent(claim.lease, "node")
    answers = await asyncio.gather(
        stores[0].finish(lease, ANSWERED), stores[1].finish(claim.lease, UNKNOWN), return_exceptions=True
    )
    assert isinstance(answers[0], LeaseLost)
    assert not isinstance(answers[1], BaseException)
    assert await stores[0].result(lease.job_id) is None


async def test_past_its_time_it_is_not_sent(store: Store) -> None:
    lease = await submit(store, wait_limit_secs=1e-6)
    unowned = await submit(store, None, wait_limit_secs=1e-6)
    with pytest.raises(LeaseLost):
        await store.mark_sent(lease, "node")
    assert await store.claim(A.id, 10) == []
    swept = await store.sweep(10)
    assert [job.id for job in swept.expired] == [lease.job_id, unowned.job_id]
    assert {(job.state, job.outcome) for job in swept.expired} == {(State.EXPIRED, "not_sent")}
    await assert_lost(store, lease)


async def test_time_in_the_line_does_not_end_a_run(database: Database) -> None:
    store = await database.open()
    lease = await submit(store, wait_limit_secs=60)
    await store.mark_sent(lease, "node")
    await database.age("fifo_jobs", "wait_ends_at", 100)
    assert (await store.sweep(10)).expired == ()
    await store.mark_sent(lease, "node")
    await store.finish(lease, ANSWERED)
