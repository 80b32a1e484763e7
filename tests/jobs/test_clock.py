"""A host's clock that is set moves no lease: the database's time decides."""

from __future__ import annotations

import time

import pytest

from proxy.jobs.job import State
from tests.jobs.databases import ON_SQLITE, Database
from tests.jobs.making import ANSWERED, A, B, run, state_of, submit

HOUR = 3600.0


def set_clock(monkeypatch: pytest.MonkeyPatch, by_secs: float) -> None:
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + by_secs)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_leases_and_limits_do_not_notice(
    database: Database, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    store = await database.open()
    await store.report(A)
    waiting, running = await submit(store, wait_limit_secs=60), await submit(store)
    done = await submit(store)
    await store.mark_sent(running, "node")
    await run(store, done)
    set_clock(monkeypatch, jump)
    assert (await store.report(B)).replicas == (A.id, B.id)
    assert await store.recover(10) == []
    swept = await store.sweep(10)
    assert (swept.expired, swept.purged) == ((), 0)
    await run(store, waiting)
    await store.report(A)
    late = await submit(store)
    await store.finish(running, ANSWERED)
    assert await store.recover(10) == []
    await run(store, late)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
@ON_SQLITE
async def test_nor_does_a_process_that_starts_after_it(
    database: Database, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    store = await database.open()
    await store.report(A)
    lease = await submit(store, wait_limit_secs=2 * HOUR)
    before = await store.get(lease.job_id)
    await database.close()
    set_clock(monkeypatch, jump)
    store = await database.open()
    await store.report(B)
    (job,) = await store.recover(10)
    assert (job.id, job.state) == (lease.job_id, State.QUEUED)
    (claim,) = await store.claim(B.id, 1)
    await run(store, claim.lease)
    after = await store.get(lease.job_id)
    assert before is not None
    assert after is not None
    assert after.sent_at is not None
    assert after.finished_at is not None
    assert after.created_at <= after.sent_at <= after.finished_at
    assert after.finished_at == pytest.approx(time.time(), abs=60)


@ON_SQLITE
async def test_people_read_the_hosts_clock(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await database.open()
    lease = await submit(store)
    set_clock(monkeypatch, HOUR)
    job = await store.get(lease.job_id)
    assert job is not None
    assert job.created_at == pytest.approx(time.time(), abs=60)
    assert await state_of(store, lease.job_id) is State.QUEUED
