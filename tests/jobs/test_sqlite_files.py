"""What lies beside the SQLite database, and that the disk gets its room back."""

from __future__ import annotations

import asyncio
import secrets
from itertools import pairwise
from pathlib import Path

import pytest

from proxy.errors import StoreFull, StoreUnavailable
from proxy.jobs.job import Bytes, StoreSettings
from tests.jobs.databases import SqliteDatabase
from tests.jobs.making import run, submit

LARGE = Bytes(bytes(100_000))


@pytest.fixture
def database(tmp_path: Path) -> SqliteDatabase:
    return SqliteDatabase(tmp_path)


def bodies(database: SqliteDatabase) -> list[Path]:
    return sorted(database.path.with_name("jobs.db.bodies").iterdir())


async def test_left_over_from_a_crash(database: SqliteDatabase) -> None:
    store = await database.open()
    await submit(store, body=LARGE)
    (named,) = bodies(database)
    await database.close()
    for name in ("a" * 32, "b" * 32):
        named.with_name(name).write_bytes(b"half a bo")
    store = await database.open()
    assert (await store.sweep(1)).has_more
    await store.sweep(10)
    await store.sweep(10)
    assert bodies(database) == [named]
    await database.close()


async def test_only_its_owner_reads_them(database: SqliteDatabase) -> None:
    store = await database.open()
    await submit(store, body=LARGE)
    (body,) = bodies(database)
    assert body.stat().st_mode & 0o777 == 0o600
    assert body.parent.stat().st_mode & 0o777 == 0o700
    for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db.lock"):
        assert database.path.with_name(name).stat().st_mode & 0o777 == 0o600, name
    await database.close()


class Short:
    """Says that it is longer than it is."""

    size = 100_000

    def read(self, offset: int, length: int) -> bytes:
        return bytes(min(length, 70_000 - offset)) if offset < 70_000 else b""


async def test_a_body_that_ends_early_is_not_stored(database: SqliteDatabase) -> None:
    store = await database.open()
    with pytest.raises(StoreUnavailable):
        await submit(store, body=Short())
    assert bodies(database) == []
    await database.close()


async def test_a_body_for_which_there_is_no_room(database: SqliteDatabase) -> None:
    class Full:
        size = 100_000

        def read(self, offset: int, length: int) -> bytes:
            raise OSError(28, "No space left on device")

    store = await database.open()
    with pytest.raises(StoreFull, match="No space left"):
        await submit(store, body=Full())
    assert bodies(database) == []
    await database.close()


async def test_the_file_shrinks_in_small_steps(database: SqliteDatabase) -> None:
    store = await database.open(StoreSettings(retention_secs=0.001))
    for lease in await asyncio.gather(
        *(submit(store, body=Bytes(secrets.token_bytes(50_000))) for _ in range(100))
    ):
        await run(store, lease)
    before = (await database.execute("PRAGMA page_count"))[0][0]
    pages = [before]
    for _ in range(8):
        await store.sweep(50)
        pages.append((await database.execute("PRAGMA page_count"))[0][0])
    assert pages == sorted(pages, reverse=True)
    assert max(a - b for a, b in pairwise(pages)) <= 260
    assert pages[-1] < before / 2
    await database.close()


async def test_a_file_that_is_deleted_under_way_takes_no_more_jobs_and_is_not_made_again(
    database: SqliteDatabase,
) -> None:
    store = await database.open()
    lease = await submit(store)
    away = database.path.with_name("away.db")
    database.path.rename(away)
    with pytest.raises(StoreUnavailable, match="moved or deleted"):
        await submit(store)
    with pytest.raises(StoreUnavailable):
        await store.sweep(10)
    assert not database.path.exists()
    away.rename(database.path)
    assert await store.get(lease.job_id) is not None
    await submit(store)
