"""The jobs in PostgreSQL, for one or many replicas.

Each call is one transaction on whatever connection is free, and leaves nothing in the session: no prepared
statement, no setting, no lock, no LISTEN. So a pooler between (PgBouncer in transaction mode) changes
nothing. Time is the server's.

Always: of a call that fails it is told whether it may have been committed, that is whether COMMIT had been
sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg

from proxy.errors import StoreFull, StoreUnavailable, StoreUnusable
from proxy.jobs import schema, statements
from proxy.jobs.body_rows import BodyRows
from proxy.jobs.group_commit import GroupCommit
from proxy.jobs.job import StoreSettings
from proxy.jobs.rows import Row
from proxy.jobs.schema import MIGRATIONS, Migration, Statement
from proxy.jobs.sql_store import SqlStore
from proxy.tasks import Tasks

T = TypeVar("T")

_MIGRATING = 0x6669666F  # an advisory lock that lasts as long as its transaction: one replica migrates
_TRIES = 3
_FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)
_CLASHES = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
# A call's own fault, not the database's: its values do not fit. (What cannot be encoded is a ValueError.)
_OWN_FAULTS = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, ValueError)
_HOPELESS = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)


class PostgresStore(SqlStore):
    """`url`: postgresql://user:password@host/database, secret. `most_connections`: that are open at a
    time."""

    def __init__(
        self,
        url: str,
        settings: StoreSettings,
        *,
        most_connections: int = 8,
        migrations: Sequence[Migration] = MIGRATIONS,
    ) -> None:
        super().__init__(settings)
        self._url = url
        self._most_connections = most_connections
        self._migrations = migrations
        self._pool: asyncpg.Pool | None = None
        self._is_migrated = False
        self._is_closed = False
        self._opening = asyncio.Lock()
        self._groups: dict[Statement, GroupCommit] = {}
        self._tasks = Tasks()
        self._bodies = BodyRows(self._commit, self._read)

    # --- life

    async def open(self) -> None:
        async with self._opening:
            if self._is_closed:
                raise StoreUnavailable("the jobs' database is closed")
            if self._pool is None:
                self._pool = await self._new_pool()
            if not self._is_migrated:
                try:
                    await self._commit(self._migrate)
                except asyncpg.ClientConfigurationError as error:
                    raise StoreUnusable(f"database_url: {error}") from error
                except StoreUnavailable as error:
                    if isinstance(error.__cause__, _HOPELESS):
                        raise StoreUnusable(error.detail) from error
                    raise
                self._is_migrated = True

    async def _new_pool(self) -> asyncpg.Pool:
        """It connects when a connection is asked for."""
        return await asyncpg.create_pool(
            self._url,
            min_size=0,
            max_size=self._most_connections,
            statement_cache_size=0,
            timeout=self.settings.timeout_secs,
            command_timeout=self.settings.timeout_secs,
            reset=_nothing_to_reset,
        )

    async def _migrate(self, connection: asyncpg.Connection) -> None:
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATING)
        await connection.execute(schema.VERSIONS.postgres)
        version = await connection.fetchval(schema.VERSION.postgres)
        for number, migration in schema.missing(version, self._migrations):
            for statement in migration:
                await connection.execute(statement.postgres)
            await connection.execute(schema.MIGRATED.postgres, number)

    async def close(self) -> None:
        async with self._opening:
            self._is_closed = True
            for group in self._groups.values():
                await group.finish()
            await self._tasks.stop()
            if self._pool is not None:
                self._pool.terminate()
                self._pool = None

    # --- what `SqlStore` asks for

    async def _ready(self) -> None:
        if not self._is_migrated or self._is_closed:
            try:
                await self.open()
            except StoreUnusable as error:
                raise StoreUnavailable(str(error)) from error

    async def _read(self, statement: Statement, **parameters: Any) -> Sequence[Row]:
        await self._ready()
        return await self._run(statement, parameters)

    async def _write(self, statement: Statement, **parameters: Any) -> Sequence[Row]:
        await self._ready()
        if "id" not in parameters:
            return await self._run(statement, parameters)
        group = self._groups.get(statement)
        if group is None:

            async def commit(many: Sequence[dict[str, Any]]) -> Sequence[Row]:
                return await self._run_many(statement, many)

            group = self._groups[statement] = GroupCommit(commit, self._tasks)
        return await group.add(parameters, self.settings.timeout_secs)

    async def _run(self, statement: Statement, parameters: dict[str, Any]) -> Sequence[Row]:
        values = statement.values(parameters)

        async def fetch(connection: asyncpg.Connection) -> Sequence[Row]:
            rows: Sequence[Row] = await connection.fetch(statement.postgres, *values)
            return rows

        return await self._commit(fetch)

    async def _run_many(self, statement: Statement, many: Sequence[dict[str, Any]]) -> Sequence[Row]:
        if statement is not statements.INSERT:  # whose order is that of the line
            many = sorted(many, key=lambda parameters: str(parameters["id"]))  # two never wait for each other
        values = [statement.values(parameters) for parameters in many]

        async def fetch(connection: asyncpg.Connection) -> Sequence[Row]:
            rows: Sequence[Row] = await connection.fetchmany(statement.postgres, values)
            return rows

        return await self._commit(fetch)

    async def _commit(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """`work` in one transaction; again where two replicas got in each other's way."""
        for _ in range(_TRIES - 1):
            try:
                return await self._commit_once(work)
            except StoreUnavailable as error:
                if not isinstance(error.__cause__, _CLASHES):
                    raise
        return await self._commit_once(work)

    async def _commit_once(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        is_committing = False
        try:
            async with asyncio.timeout(self.settings.timeout_secs), self._connection() as connection:
                await connection.execute("BEGIN")
                answer = await work(connection)
                is_committing = True
                await connection.execute("COMMIT")
                return answer
        except _FAILURES as error:
            if isinstance(error, _OWN_FAULTS):
                raise
            raise self._unavailable(error, is_committing) from error

    def _unavailable(self, error: Exception, is_committing: bool) -> StoreUnavailable:
        # Neither says more than the server or the system did: no password is in them.
        why = (
            f"no answer within {self.settings.timeout_secs:g} s" if isinstance(error, TimeoutError) else error
        )
        kind = StoreFull if isinstance(error, asyncpg.DiskFullError) else StoreUnavailable
        unavailable = kind(f"the jobs' database failed: {why}")
        if is_committing:
            unavailable.outcome = "unknown"
        return unavailable

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncpg.Connection]:
        """A free connection; it is closed, not reused, where anything went wrong on it."""
        if self._pool is None:
            raise StoreUnavailable("the jobs' database is closed")
        connection = await self._pool.acquire()
        try:
            yield connection
        except BaseException:
            connection.terminate()
            raise
        finally:
            await self._pool.release(connection)


async def _nothing_to_reset(connection: asyncpg.Connection) -> None:
    """Nothing was left in the session; behind a pooler it would not be ours anyway."""
