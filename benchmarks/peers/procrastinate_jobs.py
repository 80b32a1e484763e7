"""Procrastinate (pip install procrastinate), as its documentation has it: a task, deferred and run by a worker."""

from __future__ import annotations

import logging
import time

import procrastinate

from benchmarks.jobs_store import PAYLOAD_BYTES, TAKEN_AT_ONCE, hand_in


async def measure(url: str, jobs: int) -> float:
    """Jobs handed in and run, a second."""
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=8, max_size=12))
    ended = 0

    async def nothing(payload: str) -> None:
        nonlocal ended
        ended += 1

    task = app.task(name="nothing")(nothing)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        accepting_secs = await hand_in(jobs, lambda: task.defer_async(payload="x" * PAYLOAD_BYTES))
        started = time.perf_counter()
        await app.run_worker_async(
            wait=False, concurrency=TAKEN_AT_ONCE, install_signal_handlers=False, listen_notify=False
        )
        running_secs = time.perf_counter() - started
    assert ended == jobs, f"{ended} of {jobs} jobs have run"
    return jobs / (accepting_secs + running_secs)
