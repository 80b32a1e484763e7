"""From a configuration to a store."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from proxy.config import effective, parse
from proxy.errors import ConfigError, StoreUnusable
from proxy.jobs.job import StoreSettings
from proxy.jobs.opening import new_store, store_settings
from proxy.jobs.postgres import PostgresStore
from proxy.jobs.sqlite import SqliteStore

STATIC = {"provider": {"kind": "static", "nodes": ["http://127.0.0.1:1"]}}


@pytest.mark.parametrize(
    ("url", "path"),
    [("sqlite:///jobs.db", "jobs.db"), ("sqlite:////var/lib/fifo/jobs.db", "/var/lib/fifo/jobs.db")],
)
def test_sqlite(url: str, path: str) -> None:
    store = new_store(url, StoreSettings())
    assert isinstance(store, SqliteStore)
    assert store.path == Path(path)


@pytest.mark.parametrize("url", ["postgresql://user:secret@db/jobs", "postgres://db/jobs?sslmode=require"])
def test_postgres(url: str) -> None:
    assert isinstance(new_store(url, StoreSettings()), PostgresStore)


def test_what_to_install_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "proxy.jobs.postgres")
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(StoreUnusable, match=r"pip install 'fifo-proxy\[postgres\]'"):
        new_store("postgresql://db/jobs", StoreSettings())


def test_settings_are_the_configurations() -> None:
    config = parse(
        STATIC
        | {
            "job_inline_bytes": 1,
            "max_stored_bytes": 2,
            "job_retention_secs": 3,
            "database_timeout_secs": 4,
        }
    )
    assert store_settings(config) == StoreSettings(1, 2, 3, 4)
    assert store_settings(parse(STATIC)) == StoreSettings()


@pytest.mark.parametrize(
    "url",
    [
        *("", "jobs.db", "sqlite:jobs.db", "sqlite://jobs.db", "sqlite:///", "sqlite:////", "sqlite:///dir/"),
        *("mysql://db/jobs", "postgresql://db:port/jobs", "postgresql://db:0/jobs", "sqlite:///a\0b"),
    ],
)
def test_an_address_of_no_database_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(
        ConfigError, match=r"database_url = .*: expected sqlite:///PATH or postgresql://"
    ) as told:
        parse(STATIC | {"database_url": url})
    assert "jobs" not in str(told.value)


def test_its_password_is_not_shown() -> None:
    config = parse(STATIC | {"database_url": "postgresql://user:sesame@db/jobs"})
    assert effective(config)["database_url"] == "***"
    assert "sesame" not in repr(config)
    assert parse(STATIC | {"database_url": None}).database_url is None
