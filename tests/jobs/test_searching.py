"""What can be asked of the store."""

from __future__ import annotations

import pytest

from proxy.jobs.job import Search, State
from proxy.jobs.store import Store
from tests.jobs.databases import Database
from tests.jobs.making import A, keyed, run, submit


async def test_places_count_what_is_queued_whoever_owns_it(store: Store) -> None:
    leases = [await submit(store, owner) for owner in (A.id, None, A.id, None)]
    ids = [lease.job_id for lease in leases]
    assert [await store.place(job_id) for job_id in ids] == [1, 2, 3, 4]
    await store.mark_sent(leases[0], "node")
    await store.cancel(ids[2])
    assert [await store.place(job_id) for job_id in ids] == [None, 1, None, 2]
    await store.requeue(leases[0], reached_node=False)
    assert [await store.place(job_id) for job_id in ids] == [1, 2, None, 3]
    assert await store.place("none") is None


async def test_counts(store: Store) -> None:
    leases = [await submit(store) for _ in range(3)]
    await store.mark_sent(leases[0], "node")
    await run(store, leases[1])
    counts = await store.counts()
    assert {state: count for state, count in counts.by_state.items() if count} == {
        State.QUEUED: 1,
        State.RUNNING: 1,
        State.SUCCEEDED: 1,
    }
    assert set(counts.by_state) == set(State)
    assert counts.stored_bytes == 2 * len(b"body") + len(b"answer")


async def test_search(database: Database) -> None:
    store = await database.open()
    leases = [await submit(store) for _ in range(6)]
    keyed_job = (await store.submit(keyed("it's"), None)).job
    ids = [lease.job_id for lease in leases]
    await run(store, leases[1])
    await store.cancel(ids[2])

    async def found(**conditions: object) -> list[str]:
        return [job.id for job in await store.search(Search(**conditions))]  # type: ignore[arg-type]

    everything = [keyed_job.id, *reversed(ids)]
    assert await found() == everything
    assert await found(states=frozenset([State.SUCCEEDED, State.CANCELLED])) == [ids[2], ids[1]]
    assert await found(id=ids[3]) == [ids[3]]
    assert await found(idempotency_key="it's") == [keyed_job.id]
    assert await found(id=ids[3], states=frozenset([State.RUNNING])) == []

    first = await store.search(Search(limit=4))
    assert [job.id for job in first] == everything[:4]
    assert await found(before=first[-1].position) == everything[4:]

    await database.age("fifo_jobs", "created_at", 1000, f"id IN ('{ids[0]}', '{ids[1]}')")
    edge = keyed_job.created_at - 500
    assert await found(created_until=edge) == [ids[1], ids[0]]
    assert await found(created_from=edge) == everything[:-2]
    job = await store.get(ids[0])
    assert job is not None
    assert job.created_at == pytest.approx(keyed_job.created_at - 1000, abs=60)
