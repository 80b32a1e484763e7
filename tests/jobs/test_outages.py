"""A database that is down, slow or full: callers hear of it soon, nothing accepted is lost, and it mends by itself."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TypeVar

import pytest

from proxy.errors import LeaseLost, StoreFull, StoreUnavailable
from proxy.jobs.job import Accepted, Bytes, Job, JobLease, Replica, Search, State, StoreSettings
from proxy.jobs.schema import Statement
from proxy.jobs.sqlite import SqliteStore
from proxy.jobs.store import Store
from tests.fakes.postgres_server import Server
from tests.fakes.until import until
from tests.jobs.databases import ON_POSTGRES, ON_SQLITE, Database, PostgresDatabase, SqliteDatabase, held
from tests.jobs.making import ANSWERED, REQUEST, A, claim_one, keyed, run, state_of, submit

T = TypeVar("T")

SOON = StoreSettings(timeout_secs=0.4)
AGAIN = Replica("a-2", A.name)
RUNNERS = 3
LATE_SECS = 4.0  # noticed by then, also on a busy machine


class Load:
    """Clients that hand in and a runner that works, whatever happens to the database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.accepted: list[str] = []
        self.finished: list[str] = []
        self.refusals: list[float] = []  # how long each took

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(work()) for work in (*[self._submit] * 8, *[self._run] * RUNNERS)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _submit(self) -> None:
        while True:
            started = monotonic()
            try:
                self.accepted.append((await self._store.submit(REQUEST, None)).job.id)
            except StoreUnavailable:
                self.refusals.append(monotonic() - started)
            await asyncio.sleep(0.002)

    async def _run(self) -> None:
        while True:
            for claim in await persist(lambda: self._store.claim(A.id, 3)):
                await persist(partial(self._store.mark_sent, claim.lease, "node"))
                await persist(partial(self._store.finish, claim.lease, ANSWERED))
                self.finished.append(claim.job.id)
            await asyncio.sleep(0.002)

    async def until_more(self, what: str, count: int) -> None:
        events: list[object] = getattr(self, what)
        goal = len(events) + count
        await until(lambda: len(events) >= goal, f"{goal} {what}")


async def persist(step: Callable[[], Awaitable[T]]) -> T:
    """As a runner does: again until the database has it."""
    limit = monotonic() + 30
    while True:
        try:
            return await step()
        except StoreUnavailable:
            assert monotonic() < limit, "it did not mend"
            await asyncio.sleep(0.01)


async def assert_nothing_lost(store: Store, load: Load) -> None:
    """After the load was stopped, with whatever it had in its hands."""
    jobs = {job.id: job for job in await everything(store)}
    assert set(load.accepted) <= set(jobs)
    assert all(jobs[job_id].state is State.SUCCEEDED for job_id in load.finished)
    assert max(job.sends for job in jobs.values()) == 1
    await store.report(AGAIN)
    await store.recover(100_000)
    for claim in await store.claim(AGAIN.id, 100_000):
        await run(store, claim.lease)
    left = {job.id: job.state for job in await everything(store) if job.state is not State.SUCCEEDED}
    assert set(left.values()) <= {State.UNKNOWN}
    assert len(left) <= RUNNERS  # each had one in its hands
    assert not left.keys() & set(load.finished)


async def everything(store: Store) -> list[Job]:
    return await store.search(Search(limit=1_000_000))


@pytest.mark.slow
@ON_POSTGRES
async def test_down_under_load_and_up_again(database: PostgresDatabase) -> None:
    store = await database.open(SOON)
    await store.report(A)
    load = Load(store)
    async with load.running():
        for _ in range(2):
            await load.until_more("finished", 100)
            await asyncio.to_thread(database.server.stop)
            try:
                await load.until_more("refusals", 20)
            finally:
                await asyncio.to_thread(database.server.start)
        await load.until_more("finished", 100)
    assert max(load.refusals) < LATE_SECS
    await assert_nothing_lost(store, load)


@ON_POSTGRES
async def test_down_at_the_start(database: PostgresDatabase, postgres: Server) -> None:
    await asyncio.to_thread(postgres.stop)
    try:
        with pytest.raises(StoreUnavailable):
            await database.open(SOON)
        store = database._stores[-1]
        with pytest.raises(StoreUnavailable) as told:
            await store.submit(REQUEST, A.id)
        assert told.value.outcome == "not_sent"
    finally:
        await asyncio.to_thread(postgres.start)
    assert (await persist(lambda: store.submit(REQUEST, A.id))).is_new
    assert (await store.counts()).by_state[State.QUEUED] == 1


async def assert_refused_soon(store: Store, size: int = 4) -> None:
    started = monotonic()
    with pytest.raises(StoreUnavailable):
        await submit(store, body=Bytes(bytes(size)))
    assert monotonic() - started < LATE_SECS


async def test_slow(database: Database) -> None:
    store = await database.open(SOON)
    lease = await submit(store)
    async with held(database):
        await asyncio.gather(*(assert_refused_soon(store) for _ in range(10)))
        with pytest.raises(StoreUnavailable):
            await store.mark_sent(lease, "node")
    await persist(lambda: store.mark_sent(lease, "node"))
    await store.finish(lease, ANSWERED)
    job = await store.get(lease.job_id)
    assert job is not None
    assert job.sends == 1
    await store.report(A)
    assert (await store.counts()).by_state[State.QUEUED] == 0  # what was refused is not there


async def row_count(database: Database) -> int:
    return len(await database.execute("SELECT id FROM fifo_jobs"))


async def until_rows(database: Database, count: int) -> None:
    for _ in range(500):
        if await row_count(database) == count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"never {count} rows")


@ON_SQLITE
async def test_accepted_too_late_is_withdrawn(database: Database) -> None:
    """The commit that the caller gave up waiting for goes through when the disk is free again."""
    store = await database.open(SOON)
    async with held(database):
        with pytest.raises(StoreUnavailable) as told:
            await store.submit(keyed("k"), A.id)
        assert told.value.outcome == "unknown"
    await until_rows(database, 1)
    await store.report(A)
    assert await row_count(database) == 0
    assert (await store.submit(keyed("k"), A.id)).is_new


@ON_SQLITE
async def test_unless_somebody_joined_it(database: Database) -> None:
    store = await database.open(SOON)
    async with held(database):
        with pytest.raises(StoreUnavailable):
            await store.submit(keyed("k"), A.id)
    await until_rows(database, 1)
    joined = await store.submit(keyed("k"), A.id)
    assert not joined.is_new
    await store.report(A)
    claim = await claim_one(store)  # nobody had it in a line: it is claimed like one from a crash
    assert claim.job.id == joined.job.id
    await run(store, claim.lease)


@ON_SQLITE
async def test_claimed_without_hearing_of_it(database: Database) -> None:
    store = await database.open(SOON)
    lease = await submit(store, None)
    async with held(database):
        with pytest.raises(StoreUnavailable):
            await store.claim(A.id, 5)
    await persist(lambda: store.report(A))
    claim = await claim_one(store)
    assert claim.job.id == lease.job_id
    await run(store, claim.lease)


@ON_POSTGRES
async def test_a_commit_that_nobody_saw_the_end_of(database: PostgresDatabase) -> None:
    store = await database.open(SOON)
    await database.execute("""
        CREATE OR REPLACE FUNCTION test_linger() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(1.5); RETURN NULL; END $$
    """)
    await database.execute("""
        CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON fifo_jobs DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION test_linger()
    """)
    with pytest.raises(StoreUnavailable) as told:
        await store.submit(REQUEST, A.id)
    assert told.value.outcome == "unknown"
    await database.execute("DROP TRIGGER linger ON fifo_jobs")  # waits for it
    await store.report(A)
    assert await row_count(database) == 0


@ON_POSTGRES
async def test_full_in_postgres(database: PostgresDatabase) -> None:
    store = await database.open()
    lease = await submit(store)
    await database.execute("""
        CREATE OR REPLACE FUNCTION test_full() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END $$
    """)
    await database.execute(
        "CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON fifo_jobs EXECUTE FUNCTION test_full()"
    )
    with pytest.raises(StoreFull) as told:
        await store.submit(REQUEST, A.id)
    assert told.value.outcome == "not_sent"
    with pytest.raises(StoreUnavailable):
        await store.mark_sent(lease, "node")
    await database.execute("DROP TRIGGER full_disk ON fifo_jobs")
    await run(store, lease)


async def fill(store: Store, size: int) -> list[JobLease]:
    """Jobs until no more is taken."""
    accepted: list[JobLease] = []
    refused: list[StoreFull] = []
    while not refused:
        try:
            accepted.append(await submit(store, body=Bytes(bytes(size))))
        except StoreFull as error:
            refused.append(error)
    assert refused[0].outcome == "not_sent"
    assert len(accepted) > 10
    return accepted


@ON_SQLITE
async def test_full_in_sqlite(database: Database) -> None:
    store = await database.open()
    assert isinstance(store, SqliteStore)
    await store._write(Statement("PRAGMA max_page_count = 60"))
    accepted = await fill(store, 5000)
    await asyncio.gather(*(assert_refused_soon(store, 5000) for _ in range(3)))
    await store._write(Statement("PRAGMA max_page_count = 100000"))
    accepted.append(await submit(store))
    for lease in accepted:
        await run(store, lease)


def mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


@contextmanager
def small_disk(directory: Path, size: str) -> Iterator[Path]:
    mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", directory)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


@pytest.mark.container  # needs root
async def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    with small_disk(tmp_path, "2m") as directory:
        database = SqliteDatabase(directory)
        store = await database.open()
        accepted = await fill(store, 20_000)
        with pytest.raises(StoreFull):
            await submit(store, body=Bytes(bytes(4_000_000)))
        assert [file.name for file in (directory / "jobs.db.bodies").iterdir()] == []
        for lease in accepted:
            assert await state_of(store, lease.job_id) is State.QUEUED
        mount("-o", "remount,size=20m", directory)
        for lease in accepted:
            await run(store, lease)
        await submit(store, body=Bytes(bytes(4_000_000)))
        await database.close()


async def test_what_was_begun_is_finished_at_the_close(database: Database) -> None:
    store = await database.open()
    calls = [asyncio.create_task(store.submit(REQUEST, A.id)) for _ in range(600)]
    await until(lambda: any(call.done() for call in calls), "the first are accepted")
    await store.close()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    accepted = {answer.job.id for answer in answers if isinstance(answer, Accepted)}
    assert all(isinstance(answer, Accepted | StoreUnavailable) for answer in answers)
    assert {job.id for job in await everything(await database.open())} == accepted


async def test_a_lost_lease_is_not_an_outage(store: Store) -> None:
    lease = await submit(store)
    await store.cancel(lease.job_id)
    with pytest.raises(LeaseLost):
        await store.mark_sent(lease, "node")
