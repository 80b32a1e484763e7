"""Any sequence of calls, right ones and late ones, against a model that keeps the jobs in a dictionary."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from proxy.errors import IdempotencyConflict, LeaseLost
from proxy.jobs.job import Ending, Job, JobLease, Policy, Search, State, after_lost_run
from proxy.jobs.store import Store
from tests.fakes.postgres_server import Server
from tests.jobs.databases import Database, PostgresDatabase, SqliteDatabase
from tests.jobs.making import REQUEST, A, B, keyed

T = TypeVar("T")
REPLICAS = {replica.id: replica for replica in (A, B)}
OWNERS = st.sampled_from([*REPLICAS])
ENDS = st.sampled_from([State.SUCCEEDED, State.FAILED, State.UNKNOWN, State.CANCELLED])


@dataclass
class Known:
    id: str
    policy: Policy
    owner: str | None
    lease: int = 1
    state: State = State.QUEUED
    sends: int = 0

    def is_held_by(self, lease: JobLease) -> bool:
        return (self.owner, self.lease) == (lease.owner, lease.number) and not self.state.is_final

    def let_go(self) -> None:
        self.owner = None
        self.lease += 1


class StoreMachine(RuleBasedStateMachine):
    database: Database  # of the class that a test makes

    leases: Bundle[JobLease] = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.jobs: dict[str, Known] = {}  # in the order of joining
        self.keys: dict[str, tuple[bytes, str]] = {}
        self.alive: set[str] = set()
        self.store = self.wait(self.start())

    def wait(self, work: Awaitable[T]) -> T:
        async def run() -> T:
            return await work

        return self.runner.run(run())

    async def start(self) -> Store:
        if isinstance(self.database, PostgresDatabase):
            await self.database.clear()
        return await self.database.open()

    def teardown(self) -> None:
        self.wait(self.database.close())
        self.runner.close()
        if isinstance(self.database, SqliteDatabase):
            self.database.path.unlink()

    # --- handing in

    @rule(target=leases, owner=OWNERS, policy=st.sampled_from(Policy))
    def submit(self, owner: str, policy: Policy) -> JobLease:
        accepted = self.wait(self.store.submit(replace(REQUEST, policy=policy), owner))
        assert accepted.lease is not None
        self.jobs[accepted.job.id] = Known(accepted.job.id, policy, owner)
        return accepted.lease

    @rule(key=st.sampled_from("xy"), fingerprint=st.sampled_from([b"1", b"2"]))
    def submit_with_key(self, key: str, fingerprint: bytes) -> None:
        known = self.keys.get(key)
        try:
            accepted = self.wait(self.store.submit(keyed(key, fingerprint), None))
        except IdempotencyConflict:
            assert known is not None
            assert known[0] != fingerprint
            return
        assert accepted.is_new == (known is None)
        if known is None:
            self.keys[key] = (fingerprint, accepted.job.id)
            self.jobs[accepted.job.id] = Known(accepted.job.id, Policy.ONCE, None)
        else:
            assert known == (fingerprint, accepted.job.id)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if not self.jobs:
            return
        known = self.jobs[data.draw(st.sampled_from([*self.jobs]))]
        if known.state is State.QUEUED:
            known.state = State.CANCELLED
        job = self.wait(self.store.cancel(known.id))
        assert job is not None
        self.check(job)

    # --- running

    @rule(owner=OWNERS, limit=st.integers(0, 3))
    def claim(self, owner: str, limit: int) -> None:
        free = [known for known in self.jobs.values() if known.owner is None and not known.state.is_final]
        claims = self.wait(self.store.claim(owner, limit))
        assert [claim.job.id for claim in claims] == [known.id for known in free[:limit]]
        for claim in claims:
            known = self.jobs[claim.job.id]
            known.owner = owner
            known.lease += 1
            assert claim.lease == JobLease(known.id, owner, known.lease)

    @rule(target=leases, data=st.data())
    def present_lease(self, data: st.DataObject) -> JobLease:
        """Of whoever has a job now."""
        owned = [known for known in self.jobs.values() if known.owner is not None]
        if not owned:
            return JobLease("none", A.id, 1)
        known = data.draw(st.sampled_from(owned))
        assert known.owner is not None
        return JobLease(known.id, known.owner, known.lease)

    def held(self, lease: JobLease) -> Known | None:
        known = self.jobs.get(lease.job_id)
        return known if known is not None and known.is_held_by(lease) else None

    @rule(lease=leases, times=st.integers(1, 2))
    def mark_sent(self, lease: JobLease, times: int) -> None:
        known = self.held(lease)
        for _ in range(times):
            with expecting(LeaseLost, known is None):
                self.wait(self.store.mark_sent(lease, "node"))
        if known is not None:
            known.sends += known.state is State.QUEUED
            known.state = State.RUNNING

    @rule(lease=leases, reached_node=st.booleans(), times=st.integers(1, 2))
    def requeue(self, lease: JobLease, reached_node: bool, times: int) -> None:
        known = self.held(lease)
        for _ in range(times):
            with expecting(LeaseLost, known is None):
                self.wait(self.store.requeue(lease, reached_node=reached_node))
        if known is not None:
            known.sends -= known.state is State.RUNNING and not reached_node
            known.state = State.QUEUED

    @rule(lease=leases)
    def release(self, lease: JobLease) -> None:
        self.wait(self.store.release([lease]))
        known = self.held(lease)
        if known is not None and known.state is State.QUEUED:
            known.let_go()

    @rule(lease=leases, state=ENDS)
    def finish(self, lease: JobLease, state: State) -> None:
        held = self.held(lease)
        known = self.jobs.get(lease.job_id)
        is_repeated = (
            known is not None
            and (known.owner, known.lease, known.state) == (lease.owner, lease.number, state)
            and held is None
        )
        with expecting(LeaseLost, held is None and not is_repeated):
            job = self.wait(self.store.finish(lease, Ending(state, "unknown")))
            if held is not None:
                held.state = state
            self.check(job)

    # --- replicas

    @rule(replica_id=OWNERS)
    def report(self, replica_id: str) -> None:
        self.alive.add(replica_id)
        standing = self.wait(self.store.report(REPLICAS[replica_id]))
        assert set(standing.replicas) == self.alive
        assert standing.is_leader == (replica_id == min(self.alive))

    @rule(replica_id=OWNERS)
    def die(self, replica_id: str) -> None:
        self.wait(self.database.bury(replica_id))
        self.alive.discard(replica_id)

    @rule()
    def recover(self) -> None:
        recovered = {job.id for job in self.wait(self.store.recover(1000))}
        for known in self.jobs.values():
            is_lost = known.owner not in {None, *self.alive} and not known.state.is_final
            assert (known.id in recovered) == is_lost
            if is_lost:
                if known.state is State.RUNNING:
                    known.state = after_lost_run(known.policy, known.sends)
                if known.state is State.QUEUED:
                    known.owner = None
                known.lease += 1

    # --- what always holds

    def check(self, job: Job) -> None:
        known = self.jobs[job.id]
        assert (job.state, job.sends, job.owner) == (known.state, known.sends, known.owner)

    @invariant()
    def the_store_knows_the_same(self) -> None:
        jobs = self.wait(self.store.search(Search(limit=1000)))
        assert [job.id for job in reversed(jobs)] == [*self.jobs]
        for job in jobs:
            self.check(job)
            assert (job.finished_at is not None) == job.state.is_final
        queued = [known.id for known in self.jobs.values() if known.state is State.QUEUED]
        if queued:
            assert self.wait(self.store.place(queued[-1])) == len(queued)


def expecting(error: type[Exception], is_expected: bool) -> AbstractContextManager[object]:
    return pytest.raises(error) if is_expected else nullcontext()


EXAMPLES = settings(
    max_examples=25,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def check(database: Database, examples: settings) -> None:
    chosen = database

    class Machine(StoreMachine):
        database = chosen

    run_state_machine_as_test(Machine, settings=examples)


def test_sqlite_is_as_the_model(directory: Path) -> None:
    check(SqliteDatabase(directory), EXAMPLES)


def test_postgres_is_as_the_model(postgres: Server) -> None:
    check(PostgresDatabase(postgres, postgres), settings(EXAMPLES, max_examples=10))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_sequences(directory: Path) -> None:
    check(SqliteDatabase(directory), settings(EXAMPLES, max_examples=100))
