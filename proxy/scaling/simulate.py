"""The real line, nodes and rules in virtual time: what would these limits have done with that traffic?

The clock is whole milliseconds, so every comparison is exact. At one instant runs end first (by node), then
nodes become ready, then requests arrive (in the trace's order), then the scaler checks; pairing happens
inside each of them. The scaler checks at whole multiples of its interval, and at once when a request finds
no node and none starting. Always: a check that is skipped would have done nothing, since nothing changed and
no limit was reached.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import ceil

from proxy.dispatch.dispatcher import Dispatcher, Lease
from proxy.dispatch.line import Ticket
from proxy.dispatch.nodes import Node
from proxy.scaling.rules import Action, Down, Limits, Memory, Policy, Seen, SeenNode, decide, next_change
from proxy.scaling.traces import UnusableTrace

_NEVER = 1 << 62
_END_OF_RUN, _NODE_READY = 0, 1


@dataclass(slots=True)
class Run:
    """What happened, in milliseconds from the trace's origin. `start_ms` and `wait_ms` are in the trace's
    order; nodes are numbered from 0 as they were created, those of the floor at time 0 first, and paid from
    then to their end."""

    start_ms: array[int] = field(default_factory=lambda: array("q"))
    wait_ms: array[int] = field(default_factory=lambda: array("q"))
    actions: list[tuple[int, Action]] = field(default_factory=list)
    paid_ms: int = 0
    busy_ms: int = 0
    horizon_ms: int = 0
    peak_nodes: int = 0


def simulate(
    trace: Iterable[tuple[int, int]],
    limits: Limits,
    policy: Policy,
    node_start: Callable[[], int],
    *,
    check_interval_ms: int = 5000,
    drain_ms: int = 1_800_000,
) -> Run:
    """Serve the trace, (arrival_ms, service_ms) sorted by arrival, and check until `drain_ms` after its last
    arrival or until its last run ends. `limits` are in seconds as ever; `node_start` tells each node's start
    time in ms.

    `min_nodes` nodes are ready at 0. Memory: 16 bytes for a request, the actions, and what waits. Raises
    UnusableTrace.
    """
    simulation = _Simulation(replace(limits, ticks_per_sec=1000), policy, node_start, check_interval_ms)
    return simulation.run(iter(trace), drain_ms)


class _Request(Ticket):
    __slots__ = ("service_ms",)

    def __init__(self, service_ms: int) -> None:
        super().__init__()
        self.service_ms = service_ms


class _Simulation:
    def __init__(
        self, limits: Limits, policy: Policy, node_start: Callable[[], int], check_interval_ms: int
    ) -> None:
        self._limits = limits
        self._policy = policy
        self._node_start = node_start
        self._interval = check_interval_ms
        self._now = 0
        self._last_end = 0
        self._memory = Memory()
        self._run = Run(peak_nodes=limits.min_nodes)
        self._events: list[tuple[int, int, int, Lease | Node]] = []
        self._is_cold = False
        self._dispatcher = Dispatcher(capacity=_NEVER, grant=self._grant, on_cold=self._note_cold)
        for _ in range(limits.min_nodes):
            self._dispatcher.ready(self._dispatcher.add("node", 0), 0)

    def run(self, trace: Iterator[tuple[int, int]], drain_ms: int) -> Run:
        events, dispatcher = self._events, self._dispatcher
        arrival, service = next(trace, (_NEVER, 0))
        last_arrival = check = 0
        while True:
            event = events[0][0] if events else _NEVER
            now = min(event, arrival, check)
            if arrival == _NEVER and not dispatcher.running and dispatcher.line.head is None:
                self._run.horizon_ms = max(self._last_end, last_arrival + drain_ms)
                if now > self._run.horizon_ms:
                    return self._close()
            elif now == _NEVER:
                raise UnusableTrace(f"{len(dispatcher.line)} requests wait for ever: no node may be created")
            self._now = now
            if now == event:
                self._happen(heappop(events)[3])
            elif now == arrival:
                dispatcher.join(_Request(service), now)
                if self._is_cold:
                    self._is_cold = False
                    self._check()
                last_arrival = arrival
                arrival, service = next(trace, (_NEVER, 0))
                if arrival < last_arrival:
                    raise UnusableTrace(f"an arrival at {arrival} ms follows one at {last_arrival} ms")
            else:
                check = self._check()
                continue
            check = min(check, self._check_at(now))

    def _happen(self, what: Lease | Node) -> None:
        if isinstance(what, Lease):
            self._dispatcher.release(what, self._now)
        else:
            self._dispatcher.ready(what, self._now)

    def _grant(self, ticket: Ticket, lease: Lease) -> None:
        assert isinstance(ticket, _Request)
        now, run = self._now, self._run
        end = now + ticket.service_ms
        run.start_ms.append(now)
        run.wait_ms.append(now - int(ticket.joined_at))
        run.busy_ms += ticket.service_ms
        self._last_end = max(self._last_end, end)
        heappush(self._events, (end, _END_OF_RUN, lease.node.number, lease))

    def _note_cold(self) -> None:
        self._is_cold = True

    def _check(self) -> int:
        """Look, decide, act; answers when the next check can matter, if nothing happens before."""
        now, dispatcher = self._now, self._dispatcher
        seen = Seen(
            queue_length=len(dispatcher.line),
            oldest_wait=dispatcher.line.oldest_wait(now),
            running=dispatcher.running,
            nodes=[SeenNode(node.number - 1, node.state, node.last_used_at) for node in dispatcher.nodes],
        )
        actions = decide(self._policy, seen, self._memory, self._limits, now)
        for action in actions:
            self._act(action)
        if actions:
            return now + self._interval
        change = next_change(seen, self._memory, self._limits, now)
        return _NEVER if change is None else max(now + self._interval, self._check_at(ceil(change)))

    def _act(self, action: Action) -> None:
        now, dispatcher, run = self._now, self._dispatcher, self._run
        run.actions.append((now, action))
        self._memory = self._memory.after(action, now)
        if isinstance(action, Down):
            for number in action.numbers:
                node = dispatcher.nodes.get(number + 1)
                assert node is not None
                run.paid_ms += now - int(node.created_at)
                dispatcher.drain(node)
                dispatcher.remove(node)
            return
        for _ in range(action.count):
            node = dispatcher.add("node", now)
            heappush(self._events, (now + self._node_start(), _NODE_READY, node.number, node))
        run.peak_nodes = max(run.peak_nodes, len(dispatcher.nodes))

    def _check_at(self, instant: int) -> int:
        """The first regular check at or after an instant."""
        return -(-instant // self._interval) * self._interval

    def _close(self) -> Run:
        run = self._run
        run.paid_ms += sum(run.horizon_ms - int(node.created_at) for node in self._dispatcher.nodes)
        return run
