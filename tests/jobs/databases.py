"""The databases that every store test runs on, and what the tests do to them behind the store's back."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from proxy.jobs.job import StoreSettings
from proxy.jobs.postgres import PostgresStore
from proxy.jobs.sqlite import SqliteStore
from proxy.jobs.store import Store
from tests.fakes.postgres_server import Bouncer, Server

# For tests of what only one of them has.
ON_POSTGRES = pytest.mark.parametrize(
    "database", ["postgres", pytest.param("pgbouncer", marks=pytest.mark.real)], indirect=True
)
ON_SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


class Database(ABC):
    """An empty database. `open` gives an opened store on it; `close` closes all of them."""

    shared = True  # by several stores at a time

    def __init__(self) -> None:
        self._stores: list[Store] = []

    @abstractmethod
    def new_store(self, settings: StoreSettings, **options: Any) -> Store: ...

    @abstractmethod
    async def execute(self, sql: str) -> list[tuple[Any, ...]]: ...

    async def open(self, settings: StoreSettings | None = None, **options: Any) -> Store:
        store = self.new_store(settings or StoreSettings(), **options)
        self._stores.append(store)
        await store.open()
        return store

    async def stores(self, count: int) -> list[Store]:
        """For so many replicas: where one process has the database, one for all of them."""
        if self.shared:
            return [await self.open() for _ in range(count)]
        return [await self.open()] * count

    async def age(self, table: str, column: str, secs: float, where: str = "1 = 1") -> None:
        """Make something have happened `secs` earlier."""
        await self.execute(f"UPDATE {table} SET {column} = {column} - {secs} WHERE {where}")

    async def bury(self, replica_id: str) -> None:
        """Its last report was longer ago than a lease lasts."""
        await self.age("fifo_replicas", "reported_at", 121, f"id = '{replica_id}'")

    async def close(self) -> None:
        for store in self._stores:
            await store.close()
        self._stores.clear()


class SqliteDatabase(Database):
    shared = False

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.path = directory / "jobs.db"

    def new_store(self, settings: StoreSettings, **options: Any) -> Store:
        return SqliteStore(self.path, settings, **{"wall": lambda: time.time(), **options})

    async def execute(self, sql: str) -> list[tuple[Any, ...]]:
        return await asyncio.to_thread(self._execute, sql)

    def _execute(self, sql: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.path, timeout=10, isolation_level=None)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()


class PostgresDatabase(Database):
    """Stores come to it by `through`, tests directly."""

    def __init__(self, server: Server, through: Server | Bouncer) -> None:
        super().__init__()
        self.server = server
        self.url = through.url

    async def clear(self) -> None:
        """There is one for all tests: making one takes longer than most of them."""
        tables = ", ".join(f"fifo_{name}" for name in ("jobs", "replicas", "bodies", "chunks", "schema"))
        await self.execute(f"DROP TABLE IF EXISTS {tables}")

    def new_store(self, settings: StoreSettings, **options: Any) -> Store:
        return PostgresStore(self.url, settings, **options)

    async def execute(self, sql: str) -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(self.server.url)
        try:
            return [tuple(row) for row in await connection.fetch(sql)]
        finally:
            await connection.close()


def url_of(database: Database) -> str:
    if isinstance(database, SqliteDatabase):
        return f"sqlite:///{database.path}"
    assert isinstance(database, PostgresDatabase)
    return database.url


@asynccontextmanager
async def held(database: Database) -> AsyncIterator[None]:
    """Somebody else has the table, and takes their time."""
    if isinstance(database, SqliteDatabase):
        other = sqlite3.connect(database.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.close()
    else:
        assert isinstance(database, PostgresDatabase)
        connection = await asyncpg.connect(database.server.url)
        try:
            async with connection.transaction():
                await connection.execute("LOCK TABLE fifo_jobs IN ACCESS EXCLUSIVE MODE")
                yield
        finally:
            await connection.close()
