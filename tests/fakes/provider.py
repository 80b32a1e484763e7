"""A cloud in memory that can be slow, lie and fail; its machines are what a user would be billed for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from proxy.errors import ProviderError
from proxy.providers.base import ListedNode

UNIX = 1_700_000_000.0  # the wall clock is this much ahead of the monotonic one


@dataclass(slots=True)
class Machine:
    """`born_at`: monotonic. `listed_from`, `listed_until`: when the list begins and ends to tell of it."""

    id: str
    name: str
    born_at: float
    listed_from: float
    listed_until: float | None = None
    is_alive: bool = True
    is_running: bool = True


class FakeProvider:
    """Switches are plain attributes, to be changed at any time; `calls` holds (time, operation, what)."""

    def __init__(self, clock: Callable[[], float], *, can_scale: bool = True) -> None:
        self.kind = "fake"
        self.can_scale = can_scale
        self.is_shared = True
        self.name_prefix = "node-"
        self.create_secs = self.list_secs = self.destroy_secs = 0.0
        self.create_fault: Exception | None = None  # definite: nothing is made
        self.drops_creates = False  # a machine is made, but the caller never hears of it
        self.loses_creates = False  # none is made, and the caller cannot know
        self.destroy_fault: ProviderError | None = None
        self.list_fault: ProviderError | None = None
        self.list_lag_secs = 0.0  # both for new machines and for destroyed ones
        self.tells_age = True
        self.destroy_does_nothing = False  # answers well, and the machine lives on
        self.machines: dict[str, Machine] = {}
        self.calls: list[tuple[float, str, str]] = []
        self.most_alive = 0
        self._clock = clock
        self._count = 0

    # what a test asks and does

    def alive(self) -> list[Machine]:
        return [machine for machine in self.machines.values() if machine.is_alive]

    def times(self, operation: str) -> list[float]:
        return [at for at, called, _ in self.calls if called == operation]

    def counts(self) -> Counter[str]:
        return Counter(operation for _, operation, _ in self.calls)

    def make(self, name: str | None = None, *, age: float = 0.0) -> Machine:
        """A machine that nobody here asked for."""
        self._count += 1
        born_at = self._clock() - age
        lag = self.list_lag_secs if name else 0.0
        machine = Machine(f"id-{self._count}", name or self.new_name(), born_at, born_at + lag)
        self.machines[machine.id] = machine
        self.most_alive = max(self.most_alive, len(self.alive()))
        return machine

    def vanish(self, machine: Machine) -> None:
        """It dies on its own."""
        machine.is_alive = False
        machine.listed_until = self._clock()

    # the protocol

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def new_name(self) -> str:
        self._count += 1
        return f"{self.name_prefix}{self._count}"

    async def list(self) -> list[ListedNode]:
        """What was true when the call began."""
        now = self._clock()
        self.calls.append((now, "list", ""))
        listed = [
            self._tell(machine)
            for machine in self.machines.values()
            if machine.listed_from <= now and (machine.listed_until is None or now < machine.listed_until)
        ]
        fault = self.list_fault
        await asyncio.sleep(self.list_secs)
        if fault:
            raise fault
        return listed

    async def create(self, name: str) -> ListedNode:
        self.calls.append((self._clock(), "create", name))
        fault, drops, loses = self.create_fault, self.drops_creates, self.loses_creates
        if drops:
            self.make(name)
        await asyncio.sleep(self.create_secs)
        if drops or loses:
            raise ProviderError("connection dropped", may_have_worked=True)
        if fault:
            raise fault
        return self._tell(self.make(name))

    async def destroy(self, node_id: str) -> None:
        self.calls.append((self._clock(), "destroy", node_id))
        fault = self.destroy_fault
        await asyncio.sleep(self.destroy_secs)
        if fault:
            raise fault
        machine = self.machines[node_id]
        if not self.destroy_does_nothing:
            machine.is_alive = False
            machine.listed_until = machine.listed_until or self._clock() + self.list_lag_secs

    def _tell(self, machine: Machine) -> ListedNode:
        number = machine.id.removeprefix("id-")
        return ListedNode(
            id=machine.id,
            name=machine.name,
            url=f"http://10.0.0.{number}:8000",
            is_running=machine.is_running,
            created_at=UNIX + machine.born_at if self.tells_age else None,
        )
