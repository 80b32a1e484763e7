"""Killed without a word at random moments, again and again: nothing accepted is lost, nothing is half."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import sys
from collections import Counter
from pathlib import Path

import pytest

from proxy.jobs.job import Policy, Search, State
from tests.jobs.crash_worker import SETTINGS, answer_to
from tests.jobs.databases import Database, SqliteDatabase, url_of
from tests.jobs.making import whole

KILLS = 20
ROOT = Path(__file__).parents[2]


class Told:
    """What the workers said before they died."""

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        self.sent: Counter[str] = Counter()
        self.finished: set[str] = set()

    def hear(self, line: bytes) -> str:
        what, *ids = line.decode().split()
        if what == "accepted":
            self.accepted.update(ids)
        elif what == "sent":
            self.sent.update(ids)
        elif what == "finished":
            self.finished.update(ids)
        return what


async def work_until(told: Told, url: str, start: str, *, lines: int | None) -> None:
    """A worker that is killed after it said so many lines, or when it has nothing left to do."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.jobs.crash_worker", url, start),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    try:
        count = 0
        async with asyncio.timeout(60):
            while line := await process.stdout.readline():
                count += 1
                if told.hear(line) == "idle" and lines is None:
                    break
                if lines is not None and count >= lines:
                    break
            else:
                raise AssertionError("it ended by itself")
    finally:
        process.kill()
        rest = await process.stdout.read()
        await process.wait()
    for line in rest.splitlines(keepends=True):
        if line.endswith(b"\n"):
            told.hear(line)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_killed_again_and_again(database: Database) -> None:
    told, dice = Told(), random.Random(7)
    for number in range(KILLS):
        await work_until(told, url_of(database), str(number), lines=dice.randrange(1, 250))
    assert len(told.accepted) > 50
    await work_until(told, url_of(database), "last", lines=None)

    store = await database.open(SETTINGS)
    jobs = {job.id: job for job in await store.search(Search(limit=1_000_000))}
    assert told.accepted <= set(jobs)
    assert {job.state for job in jobs.values()} <= {State.SUCCEEDED, State.UNKNOWN, State.FAILED}
    assert all(jobs[job_id].state is State.SUCCEEDED for job_id in told.finished)
    for job in jobs.values():
        most = 1 if job.policy is Policy.ONCE else 2
        assert told.sent[job.id] <= job.sends <= most
        if job.state is State.UNKNOWN:
            assert job.policy is Policy.ONCE
        result = await store.result(job.id)
        assert (result is not None) == (job.state is State.SUCCEEDED)
        if result is not None:
            assert await whole(store, result.body) == answer_to(job.id)
    # Some were killed at each stage, or this shows nothing.
    states = Counter(job.state for job in jobs.values())
    assert states[State.UNKNOWN]
    assert any(job.sends == 2 for job in jobs.values())
    if isinstance(database, SqliteDatabase):
        connection = sqlite3.connect(database.path)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()
        while (await store.sweep(1000)).has_more:
            pass
        kept = {job.id for job in jobs.values() if job.state is State.SUCCEEDED}
        assert len(list(database.path.with_name("jobs.db.bodies").iterdir())) == len(kept)
