"""From an address to a store: the one place that knows both databases."""

from __future__ import annotations

from proxy.config import Config
from proxy.config.kinds import sqlite_path
from proxy.errors import StoreUnusable
from proxy.jobs.job import StoreSettings
from proxy.jobs.sqlite import SqliteStore
from proxy.jobs.store import Store


def new_store(url: str, settings: StoreSettings) -> Store:
    """A store, not opened yet. Raises `errors.StoreUnusable` where the driver for it is not installed."""
    path = sqlite_path(url)
    if path is not None:
        return SqliteStore(path, settings)
    try:
        from proxy.jobs.postgres import PostgresStore
    except ModuleNotFoundError as error:
        message = (
            f"database_url is PostgreSQL's, which needs {error.name}: pip install 'fifo-proxy[postgres]'"
        )
        raise StoreUnusable(message) from error
    return PostgresStore(url, settings)


def store_settings(config: Config) -> StoreSettings:
    return StoreSettings(
        inline_bytes=config.job_inline_bytes,
        max_stored_bytes=config.max_stored_bytes,
        retention_secs=config.job_retention_secs,
        timeout_secs=config.database_timeout_secs,
    )
