"""PgQueuer (pip install pgqueuer), as its documentation has it: an entry point, enqueued to and drained."""

from __future__ import annotations

import time

import asyncpg
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from benchmarks.jobs_store import CLIENTS, PAYLOAD_BYTES, TAKEN_AT_ONCE, hand_in


async def measure(url: str, jobs: int, *, in_bulk: bool = False) -> float:
    """Jobs handed in and run, a second. `in_bulk`: handed in by one client, a hundred with each call, as ours and other
    clients of a proxy cannot."""
    async with asyncpg.create_pool(url, min_size=8, max_size=12) as pool:
        queries = Queries.from_asyncpg_pool(pool)
        if not await queries.schema_is_installed():
            await queries.install()
        payload = bytes(PAYLOAD_BYTES)
        if in_bulk:
            started = time.perf_counter()
            for _ in range(0, jobs, CLIENTS):
                await queries.enqueue(["nothing"] * CLIENTS, [payload] * CLIENTS, [0] * CLIENTS)
            accepting_secs = time.perf_counter() - started
        else:
            accepting_secs = await hand_in(jobs, lambda: queries.enqueue("nothing", payload))
        ended = 0

        async def nothing(job: object) -> None:
            nonlocal ended
            ended += 1

        manager = QueueManager(queries)
        manager.entrypoint("nothing")(nothing)
        started = time.perf_counter()
        await manager.run(batch_size=TAKEN_AT_ONCE, mode=QueueExecutionMode.drain)
        running_secs = time.perf_counter() - started
    assert ended == jobs, f"{ended} of {jobs} jobs have run"
    return jobs / (accepting_secs + running_secs)
