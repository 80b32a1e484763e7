"""The wiring: builds every object, introduces neighbours to each other, and keeps the order of start and stop.

Start: provider -> scaler (reads the list, adopts) -> probes -> admin port -> jobs -> users' port. Stop: the users' port
first, then what waits and runs has `drain_timeout_secs` to finish, then everything in reverse. `hurry` skips the wait.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from time import monotonic
from typing import TYPE_CHECKING

import httpx

from proxy import logs
from proxy.admin.actions import Actions
from proxy.admin.alerts import Alerts
from proxy.admin.history import History
from proxy.admin.metrics import new_registry
from proxy.admin.monitor import Monitor
from proxy.admin.server import AdminServer
from proxy.admin.status import View, stats_line
from proxy.app_parts import apply_limits, http_settings, log_file, new_tracing, server_tls, written_to
from proxy.clock import Clock
from proxy.config import Config
from proxy.dispatch.dispatcher import Dispatcher
from proxy.errors import ProviderError
from proxy.forwarder import Forwarder, grant
from proxy.health import Health
from proxy.http.server import HttpServer
from proxy.jobs.service import JobService
from proxy.probe import Prober, open_client
from proxy.providers import build
from proxy.records import Recorder, Sink
from proxy.request_log import RequestLog
from proxy.scaling.loop import ScalingLoop
from proxy.stats import Stats

if TYPE_CHECKING:
    pass

log = logging.getLogger(__name__)

_SWEEP_SECS = 0.1  # how late a time limit may be noticed
_HISTORY_SECS = 1.0  # between two looks
_LAST_WORDS_SECS = 1.0  # for answers that are on their way when the drain time is up
_FIXED = frozenset(
    {
        "listen_host", "listen_port", "tls_cert_file", "tls_key_file", "proxy_protocol", "admin_host", "admin_port",
        "provider", "openapi_base_url", "token", "proxy_port", "scale_up_request", "node_tls_verify", "node_ca_file",
        "spool_dir", "destroy_nodes_on_exit", "tracing", "database_url", "replica_name", "jobs_path",
    }
)  # fmt: skip


class App:
    """One proxy; raises StoreUnusable where the driver of its database is not installed. `start` raises OSError (a
    port) or ProviderError; after it, `stop` ends it."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.stats = Stats()
        clock = Clock()
        self.dispatcher = Dispatcher(
            capacity=config.max_queue_length, grant=grant, on_cold=lambda: self.scaling.poke()
        )
        self.provider = build(config)
        self.scaling = ScalingLoop(self.provider, self.dispatcher, config, self.stats)
        self.forwarder = Forwarder(config, self.dispatcher, self.stats, can_replace=self.provider.can_scale)
        self.settings = http_settings(config)
        self.server = HttpServer(self.settings, self.forwarder)
        self.health = Health()
        self.jobs = self._jobs(config)
        self.recorder = Recorder()
        self.request_log = RequestLog(clock, self._request_log_fault)
        self._request_lines = logs.request_lines(clock)
        self.tracing = new_tracing(clock) if config.tracing else None
        self.forwarder.tracing = self.tracing
        self._apply_records(config)
        actions = Actions(self.dispatcher, self.scaling.orders, self.forwarder.remove, clock)
        self.view = view = View(
            self.dispatcher, self.scaling, actions, self.health, clock, clock.now(), jobs=self.jobs
        )
        registry = new_registry(
            view,
            self.stats,
            spool_bytes=lambda: self.settings.spool_budget.used,
            records_dropped=lambda: self.recorder.dropped + self.request_log.dropped,
        )
        self.history = History(self.dispatcher, self.stats, clock.now())
        self.admin = AdminServer(
            lambda: self.config, view, registry, self.history, is_accepting=lambda: self.server.is_accepting
        )
        self._monitor = Monitor(
            view,
            lambda: self.config,
            Alerts(lambda: self.config, self.health, clock, proxy_name=socket.gethostname()),
            directories=lambda: written_to(self.config),
            spool_bytes=lambda: self.settings.spool_budget.used,
        )
        self._probe_client: httpx.AsyncClient | None = None
        self._prober: Prober | None = None
        self._tls: ssl.SSLContext | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._served_before = 0

    def _jobs(self, config: Config) -> JobService | None:
        if config.database_url is None:
            return None
        url, budget = config.database_url.get_secret_value(), self.settings.spool_budget
        self.forwarder.desk = jobs = JobService(url, lambda: self.config, self.forwarder, budget, self.health)
        self.scaling.is_leader = lambda: jobs.heartbeat.was_leader
        return jobs

    @property
    def port(self) -> int:
        """The users' port, also where 0 was configured."""
        return self.server.port

    async def start(self) -> None:
        config = self.config
        try:
            await self.provider.start()
            self._probe_client = open_client(config)
            self._prober = Prober(self.dispatcher, config, self.forwarder.drop_link, self._probe_client)
            self.scaling.start()
            self._prober.start()
            self._sweep()
            self._log_stats()
            self._look_back()
            self._monitor.start()
            self._tls = server_tls(config)
            await self.admin.start()
            if self.jobs is not None:
                await self.jobs.start()
            await self.server.start(config.listen_host, config.listen_port, self._tls)
        except (OSError, ProviderError):
            await self._close()
            raise
        log.info("accepting requests", extra={"fields": {"host": config.listen_host, "port": self.port}})

    async def stop(self, hurry: asyncio.Event) -> None:
        """Stop accepting, let what runs and waits finish, answer the rest 503. `hurry`: do not wait (any longer)."""
        self.forwarder.is_stopping = True
        self.server.stop_accepting()
        if self.jobs is not None:
            self.jobs.let_go()
        if self.dispatcher.is_held:
            self.forwarder.end_waiting()  # nobody will start them any more
        limit = monotonic() + self.config.drain_timeout_secs
        while not self._is_drained and not hurry.is_set() and monotonic() < limit:
            await _wait(hurry, 0.05)
        self.forwarder.end_all()
        limit = monotonic() + _LAST_WORDS_SECS
        while self.server.connections and not hurry.is_set() and monotonic() < limit:
            await _wait(hurry, 0.02)
        self.server.cut_all()
        await self._close()

    def reload(self, config: Config) -> list[str]:
        """Take over all that can change while running, renewed certificate files too; returns the changed keys that
        cannot, which are shown until they have their old values again. Raises OSError, and changes nothing, where
        the certificate cannot be loaded."""
        if self._tls is not None and self.config.tls_cert_file is not None:
            # Handshakes from now on use it; the context itself belongs to the listening socket.
            self._tls.load_cert_chain(self.config.tls_cert_file, self.config.tls_key_file)
        changed = [
            name for name in Config.model_fields if getattr(config, name) != getattr(self.config, name)
        ]
        kept = {name: getattr(self.config, name) for name in changed if name in _FIXED}
        self.config = config = config.model_copy(update=kept)
        self.dispatcher.capacity = config.max_queue_length
        self.forwarder.config = config
        if self.jobs is not None:
            self.jobs.apply(config)
        self._apply_records(config)
        apply_limits(self.settings, config)
        self.scaling.apply(config)
        if self._prober is not None:
            self._prober.apply(config)
        logs.setup(config.log_format, config.log_level)
        self.health.clear("config_refused")
        self.view.needs_restart = tuple(sorted(kept))
        self._monitor.look()
        return sorted(kept)

    def refuse_reload(self, faults: list[str]) -> None:
        """The configuration file cannot be used: shown until one can. Everything stays as it was."""
        self.health.report("config_refused", "; ".join(faults))
        self._monitor.look()

    def _apply_records(self, config: Config) -> None:
        self.recorder.flush()  # what has ended goes where it was to go then
        sinks: list[Sink] = []
        if config.request_lines:
            sinks.append(self._request_lines)
        if config.request_log is not None:
            sinks.append(self.request_log.write)
        if self.tracing is not None:
            sinks.append(self.tracing.write)
        self.request_log.apply(log_file(config))
        self.recorder.sinks = sinks
        self.forwarder.recorder = self.recorder if sinks else None

    def _request_log_fault(self, fault: str | None) -> None:
        if fault is None:
            self.health.clear("records_dropped")
        else:
            self.health.report("records_dropped", f"the request log cannot be written: {fault}")

    @property
    def _is_drained(self) -> bool:
        return self.forwarder.is_empty and not any(c.is_answering for c in self.server.connections)

    async def _close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        if self.jobs is not None:
            await self.jobs.stop()
        await self._monitor.stop()
        if self._prober is not None:
            await self._prober.stop()
        await self.scaling.stop()
        if self._probe_client is not None:
            await self._probe_client.aclose()
        self.forwarder.close()
        self.recorder.flush()
        await self.request_log.stop()
        if self.tracing is not None:
            await self.tracing.stop()
        await self.provider.close()
        await self.admin.stop()

    def _sweep(self) -> None:
        self._timers["sweep"] = asyncio.get_running_loop().call_later(_SWEEP_SECS, self._sweep)
        now = monotonic()
        self.server.sweep(now)
        self.forwarder.sweep(now)
        self.recorder.flush()

    def _look_back(self) -> None:
        self._timers["history"] = asyncio.get_running_loop().call_later(_HISTORY_SECS, self._look_back)
        self.history.look(monotonic())

    def _log_stats(self) -> None:
        interval = self.config.stats_log_interval_secs
        loop = asyncio.get_running_loop()
        if self._timers.get("stats") is not None and interval:
            served = self._served_before
            log.info(
                "%s",
                stats_line(self.dispatcher, monotonic(), served_before=served, elapsed_secs=interval),
            )
        self._served_before = self.dispatcher.served
        self._timers["stats"] = loop.call_later(interval or 15, self._log_stats)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Until the event, but no longer than `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
