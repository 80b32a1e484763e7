"""A proxy's facts, set by hand, and an admin server on a free port that shows them."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest
from aiohttp import ClientSession

from proxy.admin.actions import Actions
from proxy.admin.history import History
from proxy.admin.metrics import new_registry
from proxy.admin.server import AdminServer
from proxy.admin.status import View
from proxy.clock import Clock
from proxy.config import Config
from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.lease import Lease
from proxy.dispatch.line import Ticket
from proxy.dispatch.nodes import Node
from proxy.errors import UnknownTarget
from proxy.health import Failing, Health
from proxy.stats import Stats


@dataclass(frozen=True)
class Decision:
    at: float
    action: str
    count: int
    reason: str


@dataclass(frozen=True)
class Trouble:
    at: float
    operation: str
    detail: str
    count: int = 1
    mended_at: float | None = None


@dataclass
class Scaler:
    last_check_at: float | None = None
    last_scale_up_at: float | None = None
    last_scale_down_at: float | None = None
    last_error: str | None = None
    decisions: deque[Decision] = field(default_factory=deque)
    troubles: list[Trouble] = field(default_factory=list)
    failing: list[Failing] = field(default_factory=list)


class NodeOrders:
    """Keeps what it was told; `refusal` is raised instead where one is set."""

    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []
        self.refusal: Exception | None = None

    def _take(self, order: str, what: object = None) -> str:
        if self.refusal is not None:
            raise self.refusal
        self.told.append((order, what))
        return f"{order} done"

    def drain(self, node: Node) -> str:
        return self._take("drain", node.name)

    def replace(self, node: Node) -> str:
        return self._take("replace", node.name)

    def restore(self, node: Node) -> str:
        return self._take("restore", node.name)

    def reach(self, count: int) -> str:
        return self._take("reach", count)

    def hold(self) -> None:
        self._take("hold")

    def resume(self) -> None:
        self._take("resume")


class Time:
    """Monotonic seconds set by the test; the wall clock is so much ahead."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.ahead = 1_800_000_000.0 - 1000.0  # 1000.0 is 2027-01-15T08:00:00Z

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + self.ahead


class Rig:
    """Everything that the admin port shows, and the leases granted so far."""

    def __init__(self) -> None:
        self.time = Time()
        self.clock = Clock(self.time.monotonic, self.time.wall)
        self.leases: list[Lease] = []
        self.dispatcher = Dispatcher(capacity=4096, grant=self._grant)
        self.scaler = Scaler()
        self.stats = Stats()
        self.spool_bytes = 0
        self.history = History(self.dispatcher, self.stats, self.time.now)
        self.orders = NodeOrders()
        self.health = Health()
        self.actions = Actions(self.dispatcher, self.orders, self._remove, self.clock)
        self.view = View(
            self.dispatcher, self.scaler, self.actions, self.health, self.clock, started_at=1000.0
        )
        self.registry = new_registry(
            self.view, self.stats, spool_bytes=lambda: self.spool_bytes, records_dropped=lambda: 0
        )
        self.is_accepting: Callable[[], bool] = lambda: True
        self.config = Config(admin_port=0)
        self.server: AdminServer | None = None

    def _grant(self, ticket: Ticket, lease: Lease) -> None:
        self.leases.append(lease)

    def _remove(self, request_id: str) -> str:
        if request_id != "waits":
            raise UnknownTarget(f"no request {request_id} waits")
        return "removed"

    async def serve(self, **keys: object) -> AdminServer:
        """A started server; `keys` of the configuration but for the port."""
        self.config = Config.model_validate({"admin_port": 0, **keys})
        self.server = AdminServer(
            lambda: self.config,
            self.view,
            self.registry,
            self.history,
            is_accepting=lambda: self.is_accepting(),
        )
        await self.server.start()
        return self.server

    def url(self, path: str) -> str:
        assert self.server is not None
        return f"http://127.0.0.1:{self.server.port}{path}"


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    if rig.server is not None:
        await rig.server.stop()


@pytest.fixture
async def http() -> AsyncIterator[ClientSession]:
    async with ClientSession() as session:
        yield session
