"""Every test that asks for a `database` runs on SQLite, on PostgreSQL, and on PostgreSQL through PgBouncer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from proxy.jobs.store import Store
from tests.fakes.postgres_server import Bouncer, Server, pgbouncer, postgres_server
from tests.jobs.databases import Database, PostgresDatabase, SqliteDatabase


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def bouncer(postgres: Server) -> Iterator[Bouncer]:
    with pgbouncer(postgres) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres", pytest.param("pgbouncer", marks=pytest.mark.real)])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    chosen: Database
    if request.param == "sqlite":
        chosen = SqliteDatabase(tmp_path)
    else:
        server = request.getfixturevalue("postgres")
        through = server if request.param == "postgres" else request.getfixturevalue("bouncer")
        chosen = PostgresDatabase(server, through)
        await chosen.clear()
    yield chosen
    await chosen.close()


@pytest.fixture
async def store(database: Database) -> Store:
    return await database.open()
