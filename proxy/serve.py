"""The process: signals, reloads and the exit code around one `App`.

SIGTERM or SIGINT stops it, a second one now; SIGHUP or a changed file reloads. A bad file changes nothing.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from pathlib import Path

import uvloop

from proxy import __version__, build_kind, logs
from proxy.app import App
from proxy.config import Config, load
from proxy.errors import ConfigError, ProviderError, StoreUnusable

log = logging.getLogger(__name__)

_GARBAGE_OBJECTS = 10_000  # a closed connection and its parser are a cycle of a dozen
_WATCH_SECS = 1.0  # a bind mount tells nothing of a change on the other side, so the file is looked at


def run(config_path: Path) -> int:
    """Serve until told to stop; returns the exit code. Raises ConfigError before anything has started."""
    config = load(config_path, os.environ)
    logs.setup(config.log_format, config.log_level)
    for warning in config.warnings:
        log.warning("%s", warning)
    return uvloop.run(_serve(config, config_path))


async def _serve(config: Config, config_path: Path) -> int:
    loop = asyncio.get_running_loop()
    told_to_stop, hurry = asyncio.Event(), asyncio.Event()

    def stop() -> None:
        (hurry if told_to_stop.is_set() else told_to_stop).set()

    facts = {"build": build_kind(), "provider": config.provider.kind}
    log.info("fifo-proxy %s starts", __version__, extra={"fields": facts})
    try:
        app = App(config)
    except StoreUnusable as error:
        log.error("cannot start: %s", error)
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, lambda: _reload(app, config_path))
    try:
        await app.start()
    except (OSError, ProviderError) as error:
        log.error("cannot start: %s", error)
        return 1
    # What is here now stays, and a request leaves no cycles behind: without this, clients that wait by the thousand
    # are looked through again and again for garbage, and a hand-off meanwhile is milliseconds late.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_OBJECTS, 20, 20)
    watcher = loop.create_task(_watch(app, config_path))
    await told_to_stop.wait()
    watcher.cancel()
    log.info("stopping", extra={"fields": {"drain_timeout_secs": app.config.drain_timeout_secs}})
    await app.stop(hurry)
    log.info("stopped")
    return 0


async def _watch(app: App, config_path: Path) -> None:
    """Reload when the file has another content or is another file, as editors and bind mounts make it."""
    seen = _mark(config_path)
    while True:
        await asyncio.sleep(_WATCH_SECS)
        mark = _mark(config_path)
        if mark is not None and mark != seen:
            seen = mark
            _reload(app, config_path)


def _mark(path: Path) -> tuple[int, int, int] | None:
    """None while there is no file: an editor may be between two steps."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _reload(app: App, config_path: Path) -> None:
    try:
        kept = app.reload(load(config_path, os.environ))
    except ConfigError as error:
        faults = error.faults
    except OSError as error:
        faults = [f"the certificate cannot be loaded: {error}"]
    else:
        for name in kept:
            log.warning("%s changes only with a restart", name)
        log.info("configuration reloaded")
        return
    for fault in faults:
        log.error("not reloaded: %s", fault)
    app.refuse_reload(faults)
