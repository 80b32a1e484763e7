"""The jobs in one SQLite file: no server, one process.

`path` is the database (write-ahead log, synced at each commit), `path.bodies/` its large bodies, `path.lock`
is locked by the process that has it; the lock goes with the process, however it ends, so whoever opens the
database knows that all earlier owners are dead.

Time is that of the host when the process started, and from then on that of a clock that nobody sets: an
hour's jump moves no lease. It never begins before what the database has seen. What people read is put right
by the host's clock."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from proxy.errors import StoreUnavailable, StoreUnusable
from proxy.jobs import schema, statements
from proxy.jobs.body_files import BodyFiles
from proxy.jobs.job import StoreSettings, Sweep
from proxy.jobs.rows import Row
from proxy.jobs.schema import MIGRATIONS, Migration, Statement
from proxy.jobs.sql_store import SqlStore
from proxy.jobs.sqlite_thread import SqliteThread, unavailable

_DRIFT_SECS = 0.5
_BUSY_SECS = 2.0  # for another program that looks at the file
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA journal_size_limit = 67108864",
)
_NEW = "PRAGMA auto_vacuum = INCREMENTAL"  # before anything else is written; and it writes each time
_LAST_SEEN = "SELECT coalesce(max(max(started_at, reported_at)), 0) FROM fifo_replicas"
_ALL_ARE_DEAD = "UPDATE fifo_replicas SET reported_at = 0"
_SHRINK = "PRAGMA incremental_vacuum(256)"  # pages given back to the disk in each step of cleaning up


class SqliteStore(SqlStore):
    """`path` need not exist, its directory must. `monotonic` and `wall` are the host's clocks."""

    def __init__(
        self,
        path: Path,
        settings: StoreSettings,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        migrations: Sequence[Migration] = MIGRATIONS,
    ) -> None:
        super().__init__(settings)
        self.path = path
        self._bodies = self._files = BodyFiles(path.with_name(path.name + ".bodies"), self._find_named)
        self._monotonic = monotonic
        self._wall = wall
        self._migrations = migrations
        self._began_at = 0.0  # the store's time when `monotonic` was 0
        self._offset = 0.0
        self._lock: int | None = None
        self._file: os.stat_result | None = None  # the one that was opened
        self._writer: SqliteThread | None = None
        self._reader: SqliteThread | None = None
        self._opening = asyncio.Lock()
        self._is_closed = False

    # --- life

    async def open(self) -> None:
        async with self._opening:
            if self._is_closed:
                raise StoreUnavailable("the jobs' database is closed")
            if self._writer is None or self._reader is None:
                await asyncio.to_thread(self._prepare)
                self._writer = SqliteThread(self._connect, self._now, is_writer=True)
                self._reader = SqliteThread(self._connect, self._now, is_writer=False)

    async def close(self) -> None:
        async with self._opening:
            self._is_closed = True
            for thread in (self._writer, self._reader):
                if thread is not None:
                    await thread.close()
            self._writer = self._reader = None
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _prepare(self) -> None:
        try:
            if self._lock is None:
                self._lock = _lock(self.path.with_name(self.path.name + ".lock"))
            self._files.open()
            _make_private(self.path)
            self._file = self.path.stat()
            connection = self._connect()
            try:
                self._migrate(connection)
            finally:
                connection.close()
        except (sqlite3.Error, OSError) as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
                raise StoreUnusable(f"{self.path}: {error}") from error
            raise unavailable(error) from error

    def _migrate(self, connection: sqlite3.Connection) -> None:
        connection.execute(schema.VERSIONS.sqlite)
        (version,) = connection.execute(schema.VERSION.sqlite).fetchone()
        for number, migration in schema.missing(version, self._migrations):
            connection.execute("BEGIN IMMEDIATE")
            for statement in migration:
                connection.execute(statement.sqlite)
            connection.execute(schema.MIGRATED.sqlite, {"version": number, "now": self._wall()})
            connection.execute("COMMIT")
        (seen,) = connection.execute(_LAST_SEEN).fetchone()
        self._began_at = max(self._wall(), seen) - self._monotonic()
        connection.execute(_ALL_ARE_DEAD)

    def _connect(self) -> sqlite3.Connection:
        # Never made here: a file that was deleted under way would come back empty, and readable by all.
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=_BUSY_SECS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.row_factory = sqlite3.Row
            is_new = not self.path.stat().st_size
            for pragma in (_NEW, *_PRAGMAS) if is_new else _PRAGMAS:
                connection.execute(pragma).fetchall()
        except (sqlite3.Error, OSError):
            connection.close()
            raise
        return connection

    # --- time

    def _now(self) -> float:
        return self._began_at + self._monotonic()

    def _shown(self, at: float) -> float:
        return at + self._wall_offset()

    def _kept(self, unix: float) -> float:
        return unix - self._wall_offset()

    def _wall_offset(self) -> float:
        """How far the host's clock is from the store's; the same until somebody has set it."""
        offset = self._wall() - self._now()
        if abs(offset - self._offset) > _DRIFT_SECS:
            self._offset = offset
        return self._offset

    # --- what `SqlStore` asks for

    async def _ready(self) -> None:
        if self._writer is None or self._is_closed:
            try:
                await self.open()
            except StoreUnusable as error:
                raise StoreUnavailable(str(error)) from error
        if not self._is_there():  # what is written to it now would be lost with the process
            raise StoreUnavailable(f"{self.path} was moved or deleted while in use: put it back, or restart")

    def _is_there(self) -> bool:
        try:
            return self._file is not None and os.path.samestat(self._file, self.path.stat())
        except OSError:
            return False

    async def _read(self, statement: Statement, **parameters: Any) -> Sequence[Row]:
        await self._ready()
        assert self._reader is not None
        return await self._reader.run(statement, parameters, self.settings.timeout_secs)

    async def _write(self, statement: Statement, **parameters: Any) -> Sequence[Row]:
        await self._ready()
        assert self._writer is not None
        return await self._writer.run(statement, parameters, self.settings.timeout_secs)

    async def sweep(self, limit: int) -> Sweep:
        swept = await super().sweep(limit)
        await asyncio.to_thread(self._shrink)
        return swept

    def _shrink(self) -> None:
        try:
            connection = self._connect()
            try:
                connection.executescript(_SHRINK)  # `execute` would do its first step only
            finally:
                connection.close()
        except (sqlite3.Error, OSError) as error:
            raise unavailable(error) from error

    async def _find_named(self, keys: list[str]) -> set[str]:
        named = set()
        for key in keys:
            if await self._read(statements.NAMED, key=key):
                named.add(key)
        return named


def _make_private(path: Path) -> None:
    """Requests are in it, with what lets them in; its log takes over who may read it."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _lock(path: Path) -> int:
    """The descriptor that holds the lock. Raises `StoreUnusable` where another process does."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StoreUnusable(
            f"{path}: another process has this database; for several replicas set database_url to PostgreSQL"
        ) from None
    return descriptor
