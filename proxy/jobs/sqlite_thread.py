"""A thread with a connection of its own: calls wait in a queue, and all that wait go into one transaction.

A call is waiting -> taken -> over. Whoever gets its `turn` first decides: the thread takes it, or the caller,
whose time is up, withdraws it. So of a call that was given up it is known whether it was never run or may
have been."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from proxy.errors import StoreFull, StoreUnavailable
from proxy.jobs.schema import Statement

_MOST_AT_ONCE = 512
_CLOSE_SECS = 10.0
Rows = list[sqlite3.Row]
_OWN_FAULTS = (
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    ValueError,
    OverflowError,
)
_DISK_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC)


class _Call:
    __slots__ = ("answer", "error", "future", "parameters", "statement", "turn")

    def __init__(
        self, statement: Statement, parameters: Mapping[str, Any], future: asyncio.Future[Rows]
    ) -> None:
        self.statement = statement
        self.parameters = parameters
        self.future = future
        self.turn = threading.Lock()
        self.answer: Rows = []
        self.error: Exception | None = None

    def take(self) -> bool:
        return self.turn.acquire(blocking=False)

    def settle(self) -> None:
        if self.future.done():  # its caller has left
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.answer)


class SqliteThread:
    """`connect` opens a connection, in the thread; it is called again after the connection has failed. `now`
    is the time that statements are run at, in seconds. `is_writer`: calls run in a transaction, which is
    durable before they return."""

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], now: Callable[[], float], *, is_writer: bool
    ) -> None:
        self._connect = connect
        self._now = now
        self._is_writer = is_writer
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._connection: sqlite3.Connection | None = None
        self._thread = threading.Thread(target=self._work, name="jobs-sqlite", daemon=True)
        self._thread.start()

    async def run(self, statement: Statement, parameters: Mapping[str, Any], timeout_secs: float) -> Rows:
        """The rows that it returned. Raises `StoreUnavailable`."""
        call = _Call(statement, parameters, self._loop.create_future())
        self._calls.put(call)
        try:
            async with asyncio.timeout(timeout_secs):
                return await call.future
        except TimeoutError:
            error = StoreUnavailable(f"the jobs' database did not answer within {timeout_secs:g} s")
            if not call.take():
                error.outcome = "unknown"
            raise error from None
        except asyncio.CancelledError:
            call.take()
            raise

    async def close(self) -> None:
        """After the calls that wait; a thread that hangs in the disk is left behind."""
        self._calls.put(None)
        await asyncio.to_thread(self._thread.join, _CLOSE_SECS)

    # --- in the thread

    def _work(self) -> None:
        while (first := self._calls.get()) is not None:
            calls = [call for call in self._with_waiting(first) if call.take()]
            if calls:
                self._run(calls)
                with suppress(RuntimeError):  # the loop is closed: nobody waits any longer
                    self._loop.call_soon_threadsafe(_settle, calls)
        self._disconnect()

    def _with_waiting(self, first: _Call) -> list[_Call]:
        calls = [first]
        with suppress(Empty):
            while len(calls) < _MOST_AT_ONCE:
                call = self._calls.get_nowait()
                if call is None:
                    self._calls.put(None)  # for the next turn
                    break
                calls.append(call)
        return calls

    def _run(self, calls: list[_Call]) -> None:
        is_committing = False
        try:
            if self._connection is None:
                self._connection = self._connect()
            connection = self._connection
            if self._is_writer:
                connection.execute("BEGIN IMMEDIATE")
            for call in calls:
                self._run_one(connection, call)
            if self._is_writer:
                is_committing = True
                connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            self._undo(error)
            for call in calls:
                call.error = failure = unavailable(error)  # one each: an exception that is raised changes
                if is_committing and _code(error) == sqlite3.SQLITE_IOERR:
                    failure.outcome = "unknown"  # what could not be synced may be there after a crash

    def _run_one(self, connection: sqlite3.Connection, call: _Call) -> None:
        try:
            parameters = {"now": self._now(), **call.parameters}
            call.answer = connection.execute(call.statement.sqlite, parameters).fetchall()
        except _OWN_FAULTS as error:
            call.error = error  # this call's own fault, and it has changed nothing: the others go on

    def _undo(self, error: Exception) -> None:
        if self._connection is None:
            return
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._disconnect()
        if _code(error) not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY):
            self._disconnect()  # whatever it is, a new connection sees the file as it is

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None


def _code(error: Exception) -> int:
    """SQLite's primary result code, without what extends it."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def unavailable(error: Exception) -> StoreUnavailable:
    code = getattr(error, "sqlite_errorcode", None)
    detail = f"the jobs' database failed: {error}"
    return StoreFull(detail) if code in _DISK_FULL else StoreUnavailable(detail)


def _settle(calls: list[_Call]) -> None:
    for call in calls:
        call.settle()
