"""The jobs of one proxy, wired: store, heartbeat, runner, pages, intake, webhooks; what the forwarder and `app.py` see.

Start: the store is opened, what nobody owns is claimed, before users are let in. A database that is not there yet (a
new SQLite file) is made when the first job comes. Stop: what waits is let go of, what runs is waited for by `app.py`,
then what is to be written is written, then the store closes.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from typing import Any

from proxy.config import Config
from proxy.config.kinds import sqlite_path
from proxy.errors import BadOrder, JobRefused, JobUnknown, StoreUnavailable
from proxy.forwarder import Forwarder
from proxy.health import Health
from proxy.http.listener import ClientConnection
from proxy.http.message import Request
from proxy.http.roles import OwnReceiver
from proxy.http.spool import SpoolBudget
from proxy.jobs.documents import admin_document
from proxy.jobs.heartbeat import Heartbeat
from proxy.jobs.intake import Intake
from proxy.jobs.job import Counts, Replica, Search, State
from proxy.jobs.opening import new_store, store_settings
from proxy.jobs.pages import Pages
from proxy.jobs.preference import wish_of
from proxy.jobs.runner import Runner
from proxy.jobs.visit import Visit, Work
from proxy.jobs.webhooks import Webhooks
from proxy.tasks import Tasks

_COUNT_SECS = 2.0
_SWEEP_SECS = 5.0
_SWEEP_STEP = 200


class JobService:
    """The forwarder's `desk`. Raises StoreUnusable where the database's driver is not installed."""

    def __init__(
        self,
        url: str,
        config: Callable[[], Config],
        forwarder: Forwarder,
        budget: SpoolBudget,
        health: Health,
    ) -> None:
        self._config = config
        self._forwarder = forwarder
        self._health = health
        self._sqlite = sqlite_path(url)
        now = config()
        name = now.replica_name or f"{socket.gethostname()}:{now.listen_port}"
        self._replica = Replica(secrets.token_hex(8), name)
        self.store = new_store(url, store_settings(now))
        self.heartbeat = Heartbeat(self.store, self._replica, on_beat=self._beaten, on_down=self._down)
        self.runner = Runner(self.store, self._replica, forwarder, budget, self.heartbeat)
        self.path = now.jobs_path.encode()
        self.pages = Pages(self.path, self.store, self.runner, forwarder)
        self._webhooks = Webhooks(config, self.store, self.heartbeat)
        self._intake = Intake(config, self.store, self.runner, self.pages, forwarder, self._webhooks.check)
        self._visits = Tasks()
        self._tasks = Tasks()
        self._counts: Counts | None = None

    # --- the forwarder's desk

    def receive(self, connection: ClientConnection, request: Request) -> OwnReceiver | None:
        if self.pages.owns(request.target):
            work: Work = self._show
        elif not request.may_be_job or request.upgrade is not None:
            return None
        else:
            try:
                wish = wish_of(request)
            except JobRefused as error:
                work = self._intake.refuse(error)
            else:
                if wish is None:
                    return None
                work = partial(self._intake.take, wish)
        return Visit(connection, request, self._forwarder, self._visits, work)

    async def _show(self, visit: Visit) -> None:
        if not self.heartbeat.is_awake:
            raise JobUnknown("there is no such job: there are none yet")
        await self.pages.show(visit)

    # --- for the operator

    @property
    def accepted(self) -> int:
        return self.runner.accepted

    @property
    def store_state(self) -> str:
        if self.heartbeat.is_up:
            return "up"
        return "down" if self.heartbeat.is_awake else "asleep"

    @property
    def by_state(self) -> dict[str, int]:
        counted = {} if self._counts is None else self._counts.by_state
        return {state.value: counted.get(state, 0) for state in State}

    @property
    def stored_bytes(self) -> int:
        return 0 if self._counts is None else self._counts.stored_bytes

    @property
    def webhooks(self) -> dict[str, int]:
        return dict(self._webhooks.counts)

    async def search(self, states: Iterable[str], limit: int) -> list[dict[str, Any]]:
        """The newest first. Raises StoreUnavailable, and BadOrder for a state that there is not."""
        try:
            search = Search(states=frozenset(map(State, states)), limit=limit)
        except ValueError:
            raise BadOrder(f"state: expected one of {', '.join(State)}") from None
        if not self.heartbeat.is_awake:
            return []
        return [admin_document(job) for job in await self.store.search(search)]

    # --- life

    async def start(self) -> None:
        if self._sqlite is None or self._sqlite.exists():
            await self.heartbeat.start()
        self._tasks.spawn(self._look_after(), "look after the jobs")
        self._webhooks.start()

    def apply(self, config: Config) -> None:
        self.store.settings = store_settings(config)

    def let_go(self) -> None:
        """We are stopping: what waits goes back to its place in the store, and nobody is kept waiting."""
        self.runner.let_go()

    async def stop(self) -> None:
        await self._tasks.stop()
        await self._webhooks.stop()
        await self._visits.stop()
        await self.runner.stop(2 * self._config().database_timeout_secs)
        await self.heartbeat.stop()
        await self.store.close()

    async def _beaten(self) -> None:
        self._health.clear("store_down")
        await self.runner.claim()

    def _down(self, error: str) -> None:
        self._health.report("store_down", f"new jobs are refused, held requests go on: {error}")

    async def _look_after(self) -> None:
        """Count, and clean up in small steps where this replica leads."""
        swept_at = float("-inf")
        while True:
            if self.heartbeat.is_up:
                try:
                    self._counts = await self.store.counts()
                    if self.heartbeat.is_leader and monotonic() - swept_at >= _SWEEP_SECS:
                        swept_at = monotonic()
                        await self._sweep()
                except StoreUnavailable as error:
                    self.heartbeat.failed(error)
            await asyncio.sleep(_COUNT_SECS)

    async def _sweep(self) -> None:
        while True:
            swept = await self.store.sweep(_SWEEP_STEP)
            for job in swept.expired:
                self.runner.forget(job.id)
            if not swept.has_more:
                return
