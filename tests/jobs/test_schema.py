"""From version to version, forwards only, also when several start at a time; a newer one is refused in words."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.errors import StoreUnavailable, StoreUnusable
from proxy.jobs.job import State, StoreSettings
from proxy.jobs.postgres import PostgresStore
from proxy.jobs.schema import MIGRATIONS, Statement, missing
from proxy.jobs.sqlite import SqliteStore
from tests.fakes.postgres_server import Server
from tests.jobs.databases import ON_POSTGRES, Database, SqliteDatabase
from tests.jobs.making import REQUEST, A, run, state_of, submit

NEXT = (
    *MIGRATIONS,
    (
        Statement("ALTER TABLE fifo_jobs ADD COLUMN priority BIGINT NOT NULL DEFAULT 7"),
        Statement("CREATE INDEX fifo_jobs_priority ON fifo_jobs (priority)"),
    ),
)
BROKEN = (*NEXT, (Statement("ALTER TABLE fifo_jobs ADD COLUMN half BIGINT"), Statement("NONSENSE")))


async def versions(database: Database) -> list[int]:
    return [row[0] for row in await database.execute("SELECT version FROM fifo_schema ORDER BY version")]


async def test_the_first_version_and_what_is_in_it_go_forward(database: Database) -> None:
    first = await database.open(migrations=MIGRATIONS[:1])
    lease = await submit(first)
    await first.close()
    assert await versions(database) == [1]
    second = await database.open(migrations=NEXT)
    assert await versions(database) == [*range(1, len(NEXT) + 1)]
    assert await database.execute("SELECT priority FROM fifo_jobs") == [(7,)]
    await run(second, lease)
    assert await state_of(second, lease.job_id) is State.SUCCEEDED
    await second.close()
    await database.open(migrations=NEXT)  # nothing to do
    assert await versions(database) == [*range(1, len(NEXT) + 1)]


async def test_a_newer_one_is_refused(database: Database) -> None:
    await (await database.open(migrations=NEXT)).close()
    with pytest.raises(StoreUnusable, match="used by a newer one"):
        await database.open(migrations=MIGRATIONS)
    assert await versions(database) == [*range(1, len(NEXT) + 1)]


async def test_a_step_is_done_whole_or_not_at_all(database: Database) -> None:
    await (await database.open(migrations=NEXT)).close()
    with pytest.raises(StoreUnavailable):
        await database.open(migrations=BROKEN)
    await database.close()
    assert await versions(database) == [*range(1, len(NEXT) + 1)]
    await database.open(migrations=NEXT)
    with pytest.raises(Exception, match="half"):
        await database.execute("SELECT half FROM fifo_jobs")


@ON_POSTGRES
async def test_many_start_at_a_time(database: Database) -> None:
    stores = [database.new_store(StoreSettings()) for _ in range(5)]
    database._stores.extend(stores)
    await asyncio.gather(*(store.open() for store in stores))
    assert await versions(database) == [*range(1, len(MIGRATIONS) + 1)]


def test_what_is_missing() -> None:
    assert [number for number, _ in missing(0, NEXT)] == [*range(1, len(NEXT) + 1)]
    assert missing(len(NEXT), NEXT) == []


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.write_bytes(b"not a database, but long enough to look like one" * 100)
    store = SqliteStore(path, StoreSettings())
    with pytest.raises(StoreUnusable, match="not a database"):
        await store.open()
    with pytest.raises(StoreUnavailable):
        await store.submit(REQUEST, A.id)
    await store.close()


async def test_a_file_that_another_process_has(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path)
    await database.open()
    with pytest.raises(StoreUnusable, match="another process has this database"):
        await database.open()
    await database.close()
    await database.open()
    await database.close()


async def test_a_directory_that_is_missing_may_come(tmp_path: Path) -> None:
    directory = tmp_path / "later"
    store = SqliteStore(directory / "jobs.db", StoreSettings())
    with pytest.raises(StoreUnavailable):
        await store.open()
    directory.mkdir()
    assert (await store.submit(replace(REQUEST), A.id)).is_new
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.submit(REQUEST, A.id)


@pytest.mark.parametrize(
    ("database", "expected"),
    [("no_such_database", "does not exist"), ("postgres", "role .* does not exist")],
)
async def test_a_wrong_address_is_told_at_once(postgres: Server, database: str, expected: str) -> None:
    user = "postgres" if expected == "does not exist" else "nobody:sesame"
    store = PostgresStore(f"postgresql://{user}@/{database}?host={postgres.directory}", StoreSettings())
    with pytest.raises(StoreUnusable, match=expected) as told:
        await store.open()
    assert "sesame" not in str(told.value)
    with pytest.raises(StoreUnavailable):
        await store.get("x")
    await store.close()


async def test_an_address_that_makes_no_sense() -> None:
    store = PostgresStore("postgresql://u:sesame@h/d?sslmode=nonsense", StoreSettings())
    with pytest.raises(StoreUnusable, match=r"database_url: .*sslmode") as told:
        await store.open()
    assert "sesame" not in str(told.value)
