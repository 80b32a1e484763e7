"""The thread: what shares a transaction, what is told of a call that was given up, and that it outlives faults."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from proxy.errors import StoreUnavailable
from proxy.jobs.schema import Statement
from proxy.jobs.sqlite_thread import SqliteThread
from tests.fakes.until import until

ADD = Statement("INSERT INTO things (name) VALUES (:name) RETURNING name")
ALL = Statement("SELECT name FROM things ORDER BY rowid")
WAIT_SECS = 30.0


class Gate:
    """A `connect` that lets nobody through until it is opened."""

    def __init__(self, path: Path) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.connections = 0
        self.factory = sqlite3.Connection
        self._path = path
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE things (name TEXT UNIQUE CHECK (name <> 'wrong'))")
        connection.close()

    def connect(self) -> sqlite3.Connection:
        self.connections += 1
        self.entered.set()
        assert self.open.wait(WAIT_SECS)
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, factory=self.factory
        )
        connection.row_factory = sqlite3.Row
        return connection


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "things.db")


@pytest.fixture
async def thread(gate: Gate) -> AsyncIterator[SqliteThread]:
    thread = SqliteThread(gate.connect, lambda: 0.0, is_writer=True)
    yield thread
    gate.open.set()
    await thread.close()


async def names(thread: SqliteThread) -> list[str]:
    return [row["name"] for row in await thread.run(ALL, {}, WAIT_SECS)]


def outcomes(answers: list[object]) -> list[str | None]:
    return [getattr(answer, "outcome", None) for answer in answers]


async def test_of_a_call_that_was_given_up_it_is_told_whether_it_was_begun(
    gate: Gate, thread: SqliteThread
) -> None:
    begun = asyncio.create_task(thread.run(ADD, {"name": "begun"}, 0.3))
    await until(gate.entered.is_set, "the thread has taken it")
    waiting = asyncio.create_task(thread.run(ADD, {"name": "waiting"}, 0.3))
    answers = await asyncio.gather(begun, waiting, return_exceptions=True)
    assert outcomes(answers) == ["unknown", "not_sent"]  # type: ignore[arg-type]
    gate.open.set()
    assert await names(thread) == ["begun"]


async def test_a_caller_that_left_takes_its_call_with_it(gate: Gate, thread: SqliteThread) -> None:
    first = asyncio.create_task(thread.run(ADD, {"name": "first"}, WAIT_SECS))
    await until(gate.entered.is_set, "the thread has taken it")
    second = asyncio.create_task(thread.run(ADD, {"name": "second"}, WAIT_SECS))
    await asyncio.sleep(0)  # it begins to wait
    for call in (first, second):
        call.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    gate.open.set()
    assert await names(thread) == ["first"]


async def test_one_calls_own_fault_is_not_the_others(gate: Gate, thread: SqliteThread) -> None:
    gate.open.set()
    answers = await asyncio.gather(
        *(thread.run(ADD, {"name": name}, WAIT_SECS) for name in ("a", "wrong", "b", "a", "c")),
        return_exceptions=True,
    )
    assert [isinstance(answer, sqlite3.IntegrityError) for answer in answers] == [
        *(False, True, False, True, False)
    ]
    assert await names(thread) == ["a", "b", "c"]


async def test_calls_before_the_close_are_run_and_later_ones_are_not(gate: Gate) -> None:
    thread = SqliteThread(gate.connect, lambda: 0.0, is_writer=True)
    calls = [asyncio.create_task(thread.run(ADD, {"name": str(n)}, WAIT_SECS)) for n in range(5)]
    await until(gate.entered.is_set, "the thread has taken the first")
    gate.open.set()
    await thread.close()
    assert [len(rows) for rows in await asyncio.gather(*calls)] == [1] * 5
    with pytest.raises(StoreUnavailable):
        await thread.run(ADD, {"name": "late"}, 0.05)


@pytest.mark.parametrize("error", [sqlite3.OperationalError("disk I/O error"), OSError("no such device")])
async def test_after_a_fault_it_connects_anew(
    gate: Gate, thread: SqliteThread, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    gate.open.set()
    await thread.run(ADD, {"name": "before"}, WAIT_SECS)
    now: Callable[[], float] = thread._now

    def fail() -> float:
        monkeypatch.setattr(thread, "_now", now)
        raise error

    monkeypatch.setattr(thread, "_now", fail)
    with pytest.raises(StoreUnavailable) as told:
        await thread.run(ADD, {"name": "fails"}, WAIT_SECS)
    assert told.value.outcome == "not_sent"
    await thread.run(ADD, {"name": "after"}, WAIT_SECS)
    assert await names(thread) == ["before", "after"]
    assert gate.connections == 2


@pytest.mark.parametrize(
    ("code", "outcome"), [(sqlite3.SQLITE_IOERR_FSYNC, "unknown"), (sqlite3.SQLITE_FULL, "not_sent")]
)
async def test_a_commit_that_failed_in_the_disk_may_be_there_later(
    gate: Gate, thread: SqliteThread, code: int, outcome: str
) -> None:
    class Failing(sqlite3.Connection):
        def execute(self, sql: str, *parameters: object) -> sqlite3.Cursor:
            if sql == "COMMIT":
                error = sqlite3.OperationalError("the disk")
                error.sqlite_errorcode = code
                raise error
            return super().execute(sql, *parameters)  # type: ignore[arg-type]

    gate.open.set()
    gate.factory = Failing
    with pytest.raises(StoreUnavailable) as told:
        await thread.run(ADD, {"name": "lost"}, WAIT_SECS)
    assert told.value.outcome == outcome
