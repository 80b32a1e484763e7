"""The tables, version by version, in words that SQLite and PostgreSQL share; `Statement` fills in where they
differ.

A database is brought from its version to the last one by running what lies between, in one transaction each;
nothing that has been released is ever changed here, only added to. Times are seconds since 1970 by the
store's clock."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from proxy.errors import StoreUnusable

_WORD = re.compile(r"\{(\w+)\}")
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")


_SQLITE = {
    "position": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "bytes": "BLOB",
    "time": "REAL",
    "now": ":now",  # the store's own clock, see `sqlite.py`
    "skip_locked": "",
}
_POSTGRES = {
    "position": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "bytes": "BYTEA",
    "time": "DOUBLE PRECISION",
    "now": "extract(epoch FROM statement_timestamp())::double precision",
    "skip_locked": "FOR UPDATE SKIP LOCKED",
}


class Statement:
    """One statement in the words of either database. Its text has `:named` parameters, and `{words}` where
    they differ; PostgreSQL's has `$n`, for the values of `names` in that order."""

    __slots__ = ("names", "postgres", "sqlite")

    def __init__(self, text: str) -> None:
        self.sqlite = _fill(text, _SQLITE)
        filled = _fill(text, _POSTGRES)
        self.names = names = tuple(dict.fromkeys(_PARAMETER.findall(filled)))
        self.postgres = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", filled)

    def values(self, parameters: Mapping[str, Any]) -> list[Any]:
        return [parameters[name] for name in self.names]


def _fill(text: str, words: Mapping[str, str]) -> str:
    return _WORD.sub(lambda found: words[found[1]], text).strip()


_JOBS = """
CREATE TABLE fifo_jobs (
    position {position},
    id TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (
        state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'expired', 'unknown')
    ),
    policy TEXT NOT NULL CHECK (policy IN ('once', 'retry')),
    -- the request
    method {bytes} NOT NULL,
    target {bytes} NOT NULL,
    request_fields {bytes} NOT NULL,
    request_trailers {bytes} NOT NULL,
    request_size BIGINT NOT NULL,
    request_data {bytes}, -- its body where it is small,
    request_key TEXT, -- else what it is stored under
    request_id TEXT NOT NULL,
    client TEXT NOT NULL,
    idempotency_key TEXT UNIQUE,
    fingerprint {bytes},
    joins BIGINT NOT NULL DEFAULT 0, -- requests with this key that joined after the first
    -- whose it is, and how far it came
    owner TEXT, -- a replica's id
    lease BIGINT NOT NULL DEFAULT 0, -- changes of hands
    claim TEXT, -- the call that gave it to its owner
    sends BIGINT NOT NULL DEFAULT 0,
    node TEXT,
    created_at {time} NOT NULL,
    wait_ends_at {time},
    sent_at {time},
    finished_at {time}, -- of every final state, and of no other
    purged_at {time},
    -- how it ended
    outcome TEXT,
    error TEXT,
    result_status BIGINT,
    result_fields {bytes},
    result_trailers {bytes},
    result_size BIGINT,
    result_data {bytes},
    result_key TEXT,
    -- who is to be told
    webhook_url TEXT,
    webhook_attempts BIGINT NOT NULL DEFAULT 0,
    webhook_due_at {time},
    webhook_done_at {time},
    webhook_error TEXT
)
"""

_REPLICAS = """
CREATE TABLE fifo_replicas (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    started_at {time} NOT NULL,
    reported_at {time} NOT NULL
)
"""

# Bodies that are too large for a row; SQLite keeps them in files beside it and these tables empty.
_BODIES = "CREATE TABLE fifo_bodies (key TEXT PRIMARY KEY, stored_at {time} NOT NULL)"
_CHUNKS = """
CREATE TABLE fifo_chunks (
    key TEXT NOT NULL, number BIGINT NOT NULL, data {bytes} NOT NULL, PRIMARY KEY (key, number)
)
"""

_INDEXES = (
    # The line, and the part of it that nobody owns: claims read its head only.
    "CREATE INDEX fifo_jobs_live ON fifo_jobs (position) WHERE finished_at IS NULL",
    "CREATE INDEX fifo_jobs_free ON fifo_jobs (position) WHERE finished_at IS NULL AND owner IS NULL",
    "CREATE INDEX fifo_jobs_wait ON fifo_jobs (wait_ends_at) "
    "WHERE finished_at IS NULL AND wait_ends_at IS NOT NULL",
    # What is due: to purge, to delete, to tell, to free.
    "CREATE INDEX fifo_jobs_kept ON fifo_jobs (finished_at) "
    "WHERE finished_at IS NOT NULL AND purged_at IS NULL",
    "CREATE INDEX fifo_jobs_purged ON fifo_jobs (purged_at) WHERE purged_at IS NOT NULL",
    "CREATE INDEX fifo_jobs_webhook ON fifo_jobs (webhook_due_at) WHERE webhook_due_at IS NOT NULL",
    "CREATE INDEX fifo_jobs_request_key ON fifo_jobs (request_key) WHERE request_key IS NOT NULL",
    "CREATE INDEX fifo_jobs_result_key ON fifo_jobs (result_key) WHERE result_key IS NOT NULL",
)

Migration = Sequence[Statement]
MIGRATIONS: tuple[Migration, ...] = (tuple(map(Statement, (_JOBS, _REPLICAS, _BODIES, _CHUNKS, *_INDEXES))),)

VERSIONS = Statement("CREATE TABLE IF NOT EXISTS fifo_schema (version BIGINT NOT NULL, at {time} NOT NULL)")
VERSION = Statement("SELECT coalesce(max(version), 0) AS version FROM fifo_schema")
MIGRATED = Statement("INSERT INTO fifo_schema (version, at) VALUES (:version, {now})")


def missing(version: int, migrations: Sequence[Migration]) -> list[tuple[int, Migration]]:
    """What takes a database from `version` to the last one. Raises `errors.StoreUnusable` for one from the
    future."""
    if version > len(migrations):
        raise StoreUnusable(
            f"the jobs' database has schema version {version}, and this program knows {len(migrations)}: "
            "it was used by a newer one; run that, or give this one another database_url"
        )
    return [(number, step) for number, step in enumerate(migrations, 1) if number > version]
