"""This replica among those that share the store: opened, reported, recovered; up or down.

States: asleep (nobody has handed anything in, and there is no database yet) -> up <-> down. Always: the store is up
from a report that went through until any call fails; each report is followed by `on_beat`, where jobs without an owner
are claimed. While it is down it is tried each second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from proxy.errors import StoreUnavailable, StoreUnusable
from proxy.jobs.job import REPORT_SECS, Replica, Standing
from proxy.jobs.store import Store
from proxy.tasks import Tasks

log = logging.getLogger(__name__)

_RETRY_SECS = 1.0
_STEP = 50  # jobs of dead replicas recovered at a time


class Heartbeat:
    """`on_down` is told why; `on_beat` follows each report, and may raise StoreUnavailable."""

    def __init__(
        self,
        store: Store,
        replica: Replica,
        *,
        on_beat: Callable[[], Awaitable[None]],
        on_down: Callable[[str], None],
    ) -> None:
        self.is_up = False
        self.standing: Standing | None = None
        self._store = store
        self._replica = replica
        self._on_beat = on_beat
        self._on_down = on_down
        self._is_open = False
        self._beating = asyncio.Lock()
        self._poke = asyncio.Event()
        self._tasks = Tasks()

    @property
    def is_awake(self) -> bool:
        return bool(len(self._tasks))

    @property
    def was_leader(self) -> bool:
        """By the last report that went through, however long ago; alone until told otherwise."""
        return self.standing is None or self.standing.is_leader

    @property
    def is_leader(self) -> bool:
        return self.is_up and self.standing is not None and self.standing.is_leader

    async def start(self) -> None:
        """Try once, and go on by itself whatever came of it."""
        await self._try()
        if not self.is_awake:
            self._tasks.spawn(self._go_on(), "report to the jobs' database")

    async def stop(self) -> None:
        self.is_up = False
        await self._tasks.stop()

    async def ready(self) -> None:
        """Raises StoreUnavailable unless the store is up; wakes a sleeping one."""
        if not self.is_awake:
            await self.start()
        if not self.is_up:
            raise StoreUnavailable("the jobs' database is not available", retry_after_secs=5)

    def failed(self, error: StoreUnavailable | StoreUnusable) -> None:
        """A call did not go through."""
        if self.is_up:
            log.error("the jobs' database is down: %s", error)
        self.is_up = False
        self._on_down(str(error))
        self._poke.set()

    async def _go_on(self) -> None:
        while True:
            self._poke.clear()
            try:
                async with asyncio.timeout(REPORT_SECS if self.is_up else _RETRY_SECS):
                    await self._poke.wait()
                    await asyncio.sleep(_RETRY_SECS)  # it has only just failed
            except TimeoutError:
                pass
            await self._try()

    async def _try(self) -> None:
        async with self._beating:
            try:
                await self._beat()
            except (StoreUnavailable, StoreUnusable) as error:
                self.failed(error)

    async def _beat(self) -> None:
        if not self._is_open:
            try:
                await self._store.open()
            finally:
                self._is_open = True  # else it opens itself at the next call
        self.standing = await self._store.report(self._replica)
        while len(await self._store.recover(_STEP)) == _STEP:
            pass
        if not self.is_up:
            log.info("the jobs' database is up", extra={"fields": {"replica": self._replica.id}})
        self.is_up = True
        await self._on_beat()
