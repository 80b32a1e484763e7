"""Looks after health: gathers the facts each half second, measures the event loop by its own lateness, and tells
the alerts.

Always: a look is synchronous and of one instant; the disks, which can hang, are asked in a thread, one question at
a time, and their last answer counts.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from proxy.admin.alerts import Alerts
from proxy.admin.status import View
from proxy.config import Config
from proxy.dispatch.nodes import NodeState
from proxy.health import LOOP_STALL_SECS, LOOP_WINDOW_SECS, Disk, Facts, judge
from proxy.tasks import Tasks

_TICK_SECS = 0.5
_DISK_SECS = 15.0
_ALIVE = (NodeState.STARTING, NodeState.IDLE, NodeState.BUSY)


class Monitor:
    """Between `start` and `stop`. `directories`: that we write to, now; `spool_bytes`: what bodies take on disk."""

    def __init__(
        self,
        view: View,
        config: Callable[[], Config],
        alerts: Alerts,
        *,
        directories: Callable[[], Iterable[Path]],
        spool_bytes: Callable[[], int],
    ) -> None:
        self._view = view
        self._config = config
        self._alerts = alerts
        self._directories = directories
        self._spool_bytes = spool_bytes
        self._disks: list[Disk] = []
        self._disk_task: asyncio.Task[None] | None = None
        self._disks_at = float("-inf")
        self._stalls: deque[tuple[float, float]] = deque(maxlen=int(LOOP_WINDOW_SECS / LOOP_STALL_SECS) + 1)
        self._tasks = Tasks()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tick(loop.time())

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.stop()
        await self._alerts.stop()

    def look(self) -> None:
        """Judge the facts as they are at this instant."""
        now = self._view.clock.now()
        self._view.health.update(judge(self._facts(now)), now)
        self._alerts.look()

    def _tick(self, due: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time()
        if at - due > LOOP_STALL_SECS:
            self._stalls.append((self._view.clock.now(), at - due))
        self._timer = loop.call_at(at + _TICK_SECS, self._tick, at + _TICK_SECS)
        if at - self._disks_at >= _DISK_SECS and (self._disk_task is None or self._disk_task.done()):
            self._disks_at = at
            self._disk_task = self._tasks.spawn(self._ask_disks(), "look at the disks")
        self.look()

    def _facts(self, now: float) -> Facts:
        dispatcher, scaler, config = self._view.dispatcher, self._view.scaler, self._config()
        checked_at = scaler.last_check_at
        return Facts(
            checked_secs_ago=now - (self._view.started_at if checked_at is None else checked_at),
            failing=scaler.failing,
            waiting=len(dispatcher.line),
            capacity=dispatcher.capacity,
            oldest_wait_secs=dispatcher.line.oldest_wait(now),
            max_wait_secs=config.degraded_wait_secs,
            alive_nodes=sum(dispatcher.nodes.count(state) for state in _ALIVE),
            disks=self._disks,
            spool_bytes=self._spool_bytes(),
            max_spool_bytes=config.max_spool_bytes,
            stalls=[lag for at, lag in self._stalls if now - at < LOOP_WINDOW_SECS],
        )

    async def _ask_disks(self) -> None:
        self._disks = await asyncio.to_thread(_disks, list(self._directories()))


def _disks(directories: list[Path]) -> list[Disk]:
    """A directory that cannot be looked at has nothing left: what is written there fails as well."""
    disks = []
    for directory in directories:
        try:
            usage = shutil.disk_usage(directory)
            disks.append(Disk(str(directory), usage.free, usage.total))
        except OSError as error:
            disks.append(Disk(str(directory), 0, 0, fault=error.strerror))
    return disks
