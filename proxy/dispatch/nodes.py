"""Nodes, their states and the only ways between them.

    starting -> idle <-> busy
    idle | busy -> unready -> idle
    idle | unready | starting -> draining -> gone
    draining -> unready, where nobody destroys it: the operator had taken it out of use

Always: a node changes its state only in `Nodes.move`, which refuses everything else, so a busy node can never
be drained; the idle nodes, and no others, are in the idle stack, the most recently freed on top; `epoch`
grows with every change, so that a probe's late answer can be told from one about the node as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from proxy.errors import FifoProxyError


class NodeState(StrEnum):
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    UNREADY = "unready"
    DRAINING = "draining"
    GONE = "gone"


STARTING, IDLE, BUSY, UNREADY, DRAINING, GONE = NodeState

_LEGAL = {
    STARTING: frozenset({IDLE, DRAINING}),
    IDLE: frozenset({BUSY, UNREADY, DRAINING}),
    BUSY: frozenset({IDLE, UNREADY}),
    UNREADY: frozenset({IDLE, DRAINING}),
    DRAINING: frozenset({GONE, UNREADY}),
    GONE: frozenset[NodeState](),
}


class IllegalTransition(FifoProxyError):
    """A node was told to become what it cannot become from where it is."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One answer to a probe: `status` of HTTP, or None and the `error`."""

    at: float
    status: int | None
    error: str | None


class Node:
    """Serves one exchange at a time. Times are in the caller's monotonic time; only `Nodes` changes `state`.

    `number`: order of creation from 1. `id`: the provider's, None until known. `url`: None while it has no
    address. `is_running`: the provider says that it may be probed.
    `ready_at`: ready for the first time. `last_processed_at`: end of its last request. `last_used_at`: the
    same, or, having had none, when it became ready. `busy_since`: when its last lease was granted.
    `settling_since`: it has answered but is busy until its probe answers 200 (`node_free_when`). `is_lost`:
    the provider lists it no longer. `must_replace`: no probe makes it ready again. `is_retiring`: it drains
    when it is not busy any more. `reason`: why it is unready.
    """

    __slots__ = (
        "_above",
        "_below",
        "_idle_since",
        "busy_since",
        "created_at",
        "epoch",
        "id",
        "is_lost",
        "is_retiring",
        "is_running",
        "last_probe",
        "last_processed_at",
        "last_used_at",
        "must_replace",
        "name",
        "number",
        "ready_at",
        "reason",
        "served",
        "settling_since",
        "state",
        "unready_since",
        "url",
    )

    def __init__(
        self, number: int, name: str, created_at: float, *, id: str | None, url: str | None, is_running: bool
    ) -> None:
        self.number = number
        self.id = id
        self.name = name
        self.url = url
        self.state = STARTING
        self.is_running = is_running
        self.created_at = created_at
        self.ready_at: float | None = None
        self.last_used_at: float | None = None
        self.last_processed_at: float | None = None
        self.busy_since = 0.0
        self.settling_since: float | None = None
        self.unready_since: float | None = None
        self.reason: str | None = None
        self.served = 0
        self.epoch = 0
        self.is_lost = False
        self.must_replace = False
        self.is_retiring = False
        self.last_probe: Probe | None = None
        self._idle_since = 0.0
        self._above: Node | None = None
        self._below: Node | None = None

    def __repr__(self) -> str:
        return f"<Node {self.number} {self.name} {self.state}>"


class Nodes:
    """Every node that is not gone: the ones we pay for. `next_idle` is the one the next ticket gets."""

    __slots__ = ("_busy_begun", "_busy_ended", "_by_number", "_counts", "_last_number", "next_idle")

    def __init__(self) -> None:
        self.next_idle: Node | None = None
        self._by_number: dict[int, Node] = {}
        self._counts = dict.fromkeys(NodeState, 0)
        self._last_number = 0
        self._busy_ended = 0.0  # busy time that is over
        self._busy_begun = 0.0  # the sum of the instants since when the busy ones are busy

    def __len__(self) -> int:
        return len(self._by_number)

    def __iter__(self) -> Iterator[Node]:
        """In order of creation, as a snapshot: the loop may await and nodes may come and go meanwhile."""
        return iter(tuple(self._by_number.values()))

    def get(self, number: int) -> Node | None:
        return self._by_number.get(number)

    def count(self, state: NodeState) -> int:
        return self._counts[state]

    def idle(self) -> Iterator[Node]:
        """The idle stack, the next to be used first."""
        node = self.next_idle
        while node is not None:
            yield node
            node = node._below

    def add(
        self,
        name: str,
        created_at: float,
        *,
        id: str | None = None,
        url: str | None = None,
        is_running: bool = False,
    ) -> Node:
        """A new node, starting."""
        self._last_number += 1
        node = Node(self._last_number, name, created_at, id=id, url=url, is_running=is_running)
        self._by_number[node.number] = node
        self._counts[STARTING] += 1
        return node

    def busy_time(self, now: float) -> float:
        """For how long nodes have been busy up to now, leased or settling, all together."""
        return self._busy_ended + self._counts[BUSY] * now - self._busy_begun

    def begin_busy(self, node: Node, now: float) -> None:
        """An idle node gets a lease."""
        self.move(node, BUSY)
        node.busy_since = now
        self._busy_begun += now

    def end_busy(self, node: Node, now: float) -> None:
        """To be called before a node that may be busy moves on."""
        if node.state is BUSY:
            self._busy_ended += now - node.busy_since
            self._busy_begun -= node.busy_since

    def move(self, node: Node, state: NodeState, now: float = 0.0) -> None:
        """The one place where a node changes its state; `now` orders the idle ones. Raises
        IllegalTransition."""
        previous = node.state
        if state not in _LEGAL[previous]:
            raise IllegalTransition(
                f"node {node.number} ({node.name}) is {previous}: it cannot become {state}"
            )
        if previous is IDLE:
            self._unstack(node)
        node.state = state
        node.epoch += 1
        self._counts[previous] -= 1
        self._counts[state] += 1
        if state is IDLE:
            self._stack(node, now)
        elif state is GONE:
            del self._by_number[node.number]

    def _stack(self, node: Node, now: float) -> None:
        """On top, but below those freed at the same instant that have a lower number."""
        node._idle_since = now
        above, below = None, self.next_idle
        while below is not None and below._idle_since == now and below.number < node.number:
            above, below = below, below._below
        node._above, node._below = above, below
        if above is None:
            self.next_idle = node
        else:
            above._below = node
        if below is not None:
            below._above = node

    def _unstack(self, node: Node) -> None:
        above, below = node._above, node._below
        if above is None:
            self.next_idle = below
        else:
            above._below = below
        if below is not None:
            below._above = above
        node._above = node._below = None
