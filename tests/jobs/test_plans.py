"""No step reads more of the table the more jobs there are: each finds its rows by an index that holds no others."""

from __future__ import annotations

import sqlite3
from typing import Any

import asyncpg
import pytest

from proxy.jobs import statements
from tests.jobs.databases import ON_SQLITE, Database, PostgresDatabase, SqliteDatabase
from tests.jobs.making import A, submit

VALUES: dict[str, Any] = {
    "now": 1.0,
    "id": "x",
    "lease": 1,
    "owner": "r",
    "claim": "c",
    "limit": 10,
    "node": "n",
    "uncounted": 1,
    "retention_secs": 1.0,
    "hold_secs": 1.0,
    "key": "k",
    "fingerprint": b"f",
    "state": "failed",
    "seen": "running",
    "outcome": "unknown",
    "error": None,
    **dict.fromkeys(("result_status", "result_size", "result_key", "result_data"), None),
    **dict.fromkeys(("result_fields", "result_trailers"), None),
}
STEPS = {
    "claim": (statements.CLAIM, "fifo_jobs_free"),
    "abandoned": (statements.ABANDONED, "fifo_jobs_live"),
    "place": (statements.PLACE, "fifo_jobs_live"),
    "expire": (statements.EXPIRE, "fifo_jobs_wait"),
    "purgeable": (statements.PURGEABLE, "fifo_jobs_kept"),
    "delete": (statements.DELETE, "fifo_jobs_purged"),
    "spent": (statements.SPENT, "fifo_jobs_request_key"),
    "take_webhooks": (statements.TAKE_WEBHOOKS, "fifo_jobs_webhook"),
    **{
        statement: (getattr(statements, statement.upper()), "")
        for statement in (
            "mark_sent",
            "requeue",
            "finish",
            "cancel",
            "get",
            "result",
            "let_go",
            "join",
            "load",
        )
    },
}
MANY = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 5000)
INSERT INTO fifo_jobs (id, state, policy, method, target, request_fields, request_trailers, request_size, request_id,
    client, created_at, finished_at, purged_at, owner)
SELECT 'job-' || n, 'succeeded', 'once', method, target, request_fields, request_trailers, request_size, request_id,
    client, created_at, created_at, CASE WHEN n < 2500 THEN created_at END, 'r'
FROM numbers, fifo_jobs WHERE position = 1
"""


async def fill(database: Database) -> None:
    """Many that are over, a few that are not."""
    store = await database.open()
    for owner in (A.id, None) * 20:
        await submit(store, owner)
    await database.execute(MANY)


@ON_SQLITE
async def test_in_sqlite(database: SqliteDatabase) -> None:
    await fill(database)
    connection = sqlite3.connect(database.path)
    for name, (statement, index) in STEPS.items():
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement.sqlite}", VALUES).fetchall()
        lines = [str(row[3]) for row in plan]
        whole = [line for line in lines if line.startswith("SCAN fifo_jobs") and "USING INDEX" not in line]
        assert not whole, (name, lines)
        assert not [line for line in lines if "TEMP B-TREE" in line], (name, lines)
        assert index in "\n".join(lines), (name, lines)
    connection.close()


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_in_postgres(database: PostgresDatabase) -> None:
    await fill(database)
    connection = await asyncpg.connect(database.server.url)
    try:
        await connection.execute("ANALYZE fifo_jobs")
        for name, (statement, index) in STEPS.items():
            rows = await connection.fetch(f"EXPLAIN {statement.postgres}", *statement.values(VALUES))
            plan = f"{name}:\n" + "\n".join(row[0] for row in rows)
            assert "Seq Scan on fifo_jobs" not in plan, plan
            assert "Sort" not in plan, plan
            assert index in plan, plan
    finally:
        await connection.close()
