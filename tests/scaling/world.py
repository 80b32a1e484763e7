"""A scaling loop with the real dispatcher and rules, a fake cloud, and machines ready once booted."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from proxy.config import Config
from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.lease import Lease
from proxy.dispatch.line import Ticket
from proxy.dispatch.nodes import Node, NodeState
from proxy.scaling.loop import ScalingLoop
from proxy.stats import Stats
from tests.fakes.provider import UNIX, FakeProvider


def seconds() -> float:
    """The clock of the running (virtual) event loop."""
    return asyncio.get_running_loop().time()


class World:
    """`granted` has every lease in order; nothing releases them but the test."""

    def __init__(
        self,
        provider: FakeProvider | None = None,
        *,
        boot_secs: float | None = 1.0,
        jitter: float = 1.0,
        **settings: Any,
    ) -> None:
        """`boot_secs`: None leaves readiness to the test. `jitter` 1.0: every wait has its nominal length."""
        self.began = seconds()
        self.cloud = provider or FakeProvider(seconds)
        self.config = Config(**settings)
        self.stats = Stats()
        self.granted: list[Lease] = []
        self.boot_secs = boot_secs
        self.dispatcher = Dispatcher(
            capacity=4096, grant=lambda _, lease: self.granted.append(lease), on_cold=lambda: self.loop.poke()
        )
        self.loop = ScalingLoop(
            self.cloud,
            self.dispatcher,
            self.config,
            self.stats,
            clock=seconds,
            wall=lambda: UNIX + seconds(),
            random=lambda: jitter if jitter else random.random(),
        )
        self._probes = asyncio.create_task(self._probe())

    async def __aenter__(self) -> World:
        self.loop.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        self._probes.cancel()
        await self.loop.stop()

    @property
    def nodes(self) -> list[Node]:
        return list(self.dispatcher.nodes)

    def error(self) -> str | None:
        return self.loop.last_error

    def states(self) -> list[str]:
        return [str(node.state) for node in self.dispatcher.nodes]

    def elapsed(self, operation: str) -> list[float]:
        """When the cloud was called, in seconds since this world began, to the tenth."""
        return [round(at - self.began, 1) for at in self.cloud.times(operation)]

    def apply(self, **settings: Any) -> None:
        self.config = self.config.model_copy(update=settings)
        self.loop.apply(self.config)

    def join(self, count: int = 1) -> None:
        for _ in range(count):
            self.dispatcher.join(Ticket(), seconds())

    def release(self, lease: Lease) -> None:
        self.dispatcher.release(lease, seconds())

    def leave_all(self) -> None:
        for ticket in list(self.dispatcher.line):
            self.dispatcher.leave(ticket)

    async def until(self, second: float) -> None:
        """Let time pass until so many seconds after this world began, and all that is due then happen."""
        await asyncio.sleep(self.began + second - seconds())
        await settle()

    async def _probe(self) -> None:
        while True:
            now = seconds()
            for node in self.dispatcher.nodes:
                machine = self.cloud.machines.get(node.id or "")
                if machine is None or self.boot_secs is None or node.state is NodeState.BUSY:
                    continue
                if not machine.is_alive:
                    self.dispatcher.unready(node, now, "its probe: refused")
                elif machine.is_running and now >= machine.born_at + self.boot_secs:
                    self.dispatcher.ready(node, now)
            await asyncio.sleep(0.5)


async def settle() -> None:
    """Let everything run that can without time passing."""
    for _ in range(20):
        await asyncio.sleep(0)
