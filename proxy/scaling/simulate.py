"""The real line, nodes and rules in virtual time: what would these limits have done with that traffic?

The clock is whole milliseconds, so every comparison is exact. At one instant runs end first (by node), then
nodes become ready, then requests arrive (in the trace's order), then the scaler checks; pairing happens
inside each of them. The scaler checks at whole multiples of its interval, and at once when a request finds
no node and none starting. Always: a check that is skipped would have done nothing, since nothing changed and
no limit was reached.

Failures are those of the real proxy: a start that fails is paid until its time is up, then puts the next
creates off; the run of a node that dies is over, its outcome unknown, and not served again; the node is unready
until it is given up. Always: every request starts once, and is served or in `Run.cut_ms`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import ceil
from typing import Protocol

from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.lease import Lease
from proxy.dispatch.line import Ticket
from proxy.dispatch.nodes import GONE, IDLE, Node
from proxy.errors import ProviderError
from proxy.scaling.demand import Demand
from proxy.scaling.failures import Failures
from proxy.scaling.rules import Action, Down, Limits, Memory, Policy, Seen, SeenNode, decide, next_change
from proxy.scaling.traces import UnusableTrace
from proxy.scaling.troubles import Backoff

_NEVER = 1 << 62
_HOPELESS = 2000  # failed starts in a row
NO_FAILURES = Failures(start_timeout_ms=_NEVER)
_END_OF_RUN, _NODE_READY, _NODE_DEATH, _GIVING_UP = range(4)


@dataclass(slots=True)
class Life:
    """One node's, in ms: paid from `created_ms` to `gone_ms`. `ready_ms` and `died_ms` are None where that
    did not happen."""

    created_ms: int
    ready_ms: int | None = None
    died_ms: int | None = None
    gone_ms: int = _NEVER


@dataclass(slots=True)
class Run:
    """What happened, in milliseconds from the trace's origin. `start_ms` and `wait_ms` are in the trace's
    order; `nodes` are numbered from 0 as they were created, those of the floor at time 0 first, and paid from
    then to their end. `cut_ms`: when the runs of these requests (by place in the trace) were cut by the death
    of their node; `busy_ms` is without them. `failed_starts`: nodes that were given up before they were ready."""

    start_ms: array[int] = field(default_factory=lambda: array("q"))
    wait_ms: array[int] = field(default_factory=lambda: array("q"))
    actions: list[tuple[int, Action]] = field(default_factory=list)
    nodes: list[Life] = field(default_factory=list)
    cut_ms: dict[int, int] = field(default_factory=dict)
    failed_starts: int = 0
    paid_ms: int = 0
    busy_ms: int = 0
    horizon_ms: int = 0
    peak_nodes: int = 0


class Rule(Protocol):
    """Another policy than ours, with limits and a memory of its own, to be compared with them. Times are in ms."""

    def decide(self, seen: Seen, now: int) -> tuple[Action, ...]:
        """As `rules.decide`."""

    def next_change(self, seen: Seen, now: int) -> float | None:
        """As `rules.next_change`."""


def simulate(
    trace: Iterable[tuple[int, int]],
    limits: Limits,
    policy: Policy | Rule,
    node_start: Callable[[], int],
    *,
    check_interval_ms: int = 5000,
    drain_ms: int = 1_800_000,
    failures: Failures = NO_FAILURES,
) -> Run:
    """Serve the trace, (arrival_ms, service_ms) sorted by arrival, and check until `drain_ms` after its last
    arrival or until its last run ends. `limits` are in seconds as ever; `node_start` tells each node's start
    time in ms.

    `min_nodes` nodes are ready at 0. Memory: 16 bytes for a request, the actions, and what waits. Raises
    UnusableTrace.
    """
    simulation = _Simulation(
        replace(limits, ticks_per_sec=1000), policy, node_start, check_interval_ms, failures
    )
    return simulation.run(iter(trace), drain_ms)


class _Request(Ticket):
    __slots__ = ("service_ms",)

    def __init__(self, service_ms: int) -> None:
        super().__init__()
        self.service_ms = service_ms


class _Simulation:
    def __init__(
        self,
        limits: Limits,
        policy: Policy | Rule,
        node_start: Callable[[], int],
        check_interval_ms: int,
        failures: Failures,
    ) -> None:
        self._limits = limits
        self._policy = policy
        self._node_start = node_start
        self._interval = check_interval_ms
        self._failures = failures
        self._backoff = Backoff(failures.jitter)  # in seconds
        self._failed_in_a_row = 0
        self._now = 0
        self._last_end = 0
        self._memory = Memory()
        self._run = Run(peak_nodes=limits.min_nodes)
        self._events: list[tuple[int, int, int, Lease | Node]] = []
        self._is_cold = False
        self._dispatcher = Dispatcher(capacity=_NEVER, grant=self._grant, on_cold=self._note_cold)
        self._demand: Demand | None = None
        if policy == "target_wait":
            ticks = limits.ticks_per_sec
            self._demand = self._dispatcher.watcher = Demand(limits.target_wait_secs * ticks, ticks)
        for _ in range(limits.min_nodes):
            self._become_ready(self._add())

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
                _, kind, _, what = heappop(events)
                self._happen(kind, what)
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

    def _happen(self, kind: int, what: Lease | Node) -> None:
        if isinstance(what, Lease):
            if not what.is_returned:  # as it is when its node died
                self._last_end = self._now
                self._dispatcher.release(what, self._now)
        elif kind == _NODE_READY:
            self._become_ready(what)
        elif what.state is not GONE:
            if kind == _NODE_DEATH:
                self._die(what)
            else:
                self._give_up(what)

    def _grant(self, ticket: Ticket, lease: Lease) -> None:
        assert isinstance(ticket, _Request)
        now, run = self._now, self._run
        run.start_ms.append(now)
        run.wait_ms.append(now - int(ticket.joined_at))
        run.busy_ms += ticket.service_ms
        heappush(self._events, (now + ticket.service_ms, _END_OF_RUN, lease.node.number, lease))

    def _note_cold(self) -> None:
        self._is_cold = True

    def _check(self) -> int:
        """Look, decide, act; answers when the next check can matter, if nothing happens before."""
        now, dispatcher = self._now, self._dispatcher
        seen = Seen(
            queue_length=len(dispatcher.line),
            oldest_wait=dispatcher.line.oldest_wait(now),
            running=dispatcher.running,
            nodes=[
                SeenNode(node.number - 1, node.state, node.last_used_at, node.unready_since)
                for node in dispatcher.nodes
            ],
        )
        if self._demand is not None:
            self._demand.limited(len(seen.nodes) >= self._limits.max_nodes)
        actions = self._decide(seen)
        for action in actions:
            self._act(action)
        if actions:
            return now + self._interval
        change = self._next_change(seen)
        return _NEVER if change is None else max(now + self._interval, self._check_at(ceil(change)))

    def _decide(self, seen: Seen) -> tuple[Action, ...]:
        if isinstance(self._policy, str):
            return decide(self._policy, seen, self._memory, self._limits, self._now, self._demand)
        return self._policy.decide(seen, self._now)

    def _next_change(self, seen: Seen) -> float | None:
        if isinstance(self._policy, str):
            return next_change(seen, self._memory, self._limits, self._now, self._demand)
        return self._policy.next_change(seen, self._now)

    def _act(self, action: Action) -> None:
        now, dispatcher, run = self._now, self._dispatcher, self._run
        if not isinstance(action, Down) and self._backoff.delay(now / 1000):
            return
        run.actions.append((now, action))
        self._memory = self._memory.after(action, now)
        if isinstance(action, Down):
            for number in action.numbers:
                node = dispatcher.nodes.get(number + 1)
                assert node is not None
                if self._demand is not None and node.last_used_at is not None:
                    self._demand.stopped(node.last_used_at)
                self._remove(node)
            return
        if self._demand is not None and action.cause != "floor":
            self._demand.asked(now, action.count)
        for _ in range(action.count):
            self._start(self._add())
        run.peak_nodes = max(run.peak_nodes, len(dispatcher.nodes))

    # one node's life

    def _add(self) -> Node:
        self._run.nodes.append(Life(self._now))
        return self._dispatcher.add("node", self._now)

    def _start(self, node: Node) -> None:
        ready_at = self._now + self._node_start()
        given_up_at = self._check_after(self._failures.start_timeout_ms)
        if self._failures.fails_to_start() or ready_at > given_up_at:
            heappush(self._events, (given_up_at, _GIVING_UP, node.number, node))
        else:
            heappush(self._events, (ready_at, _NODE_READY, node.number, node))

    def _become_ready(self, node: Node) -> None:
        life = self._run.nodes[node.number - 1]
        life.ready_ms = self._now
        if self._demand is not None and self._now > life.created_ms:
            self._demand.started(self._now - life.created_ms)
        self._backoff.succeed()
        self._failed_in_a_row = 0
        if (lives_ms := self._failures.life_ms()) is not None:
            heappush(self._events, (self._now + lives_ms, _NODE_DEATH, node.number, node))
        self._dispatcher.ready(node, self._now)

    def _die(self, node: Node) -> None:
        """An idle node's death is seen at once: what would be sent to it is refused, and so is sent again."""
        now, run = self._now, self._run
        run.nodes[node.number - 1].died_ms = now
        if node.state is IDLE:
            self._dispatcher.unready(node, now, "died")
        else:
            (lease,) = (
                what
                for _, _, number, what in self._events
                if number == node.number and isinstance(what, Lease) and not what.is_returned
            )
            assert isinstance(lease.ticket, _Request)
            run.cut_ms[lease.ticket.number - 1] = self._last_end = now
            run.busy_ms -= lease.ticket.service_ms
            self._dispatcher.release_unready(lease, now, "died")
        given_up_at = self._check_after(self._failures.unready_destroy_ms)
        heappush(self._events, (given_up_at, _GIVING_UP, node.number, node))

    def _give_up(self, node: Node) -> None:
        if self._run.nodes[node.number - 1].ready_ms is None:
            self._run.failed_starts += 1
            self._failed_in_a_row += 1
            if self._failed_in_a_row == _HOPELESS:
                raise UnusableTrace(f"{_HOPELESS} starts of nodes in a row failed or took too long")
            self._backoff.fail(self._now / 1000, ProviderError("not ready in time"))
        self._remove(node)

    def _remove(self, node: Node) -> None:
        self._run.nodes[node.number - 1].gone_ms = self._now
        self._run.paid_ms += self._now - int(node.created_at)
        self._dispatcher.drain(node)
        self._dispatcher.remove(node)

    def _check_at(self, instant: int) -> int:
        """The first regular check at or after an instant."""
        return -(-instant // self._interval) * self._interval

    def _check_after(self, limit_ms: int) -> int:
        """The first regular check at which more than that has passed from now."""
        return self._check_at(self._now + limit_ms + 1)

    def _close(self) -> Run:
        run = self._run
        for node in self._dispatcher.nodes:
            run.nodes[node.number - 1].gone_ms = run.horizon_ms
            run.paid_ms += run.horizon_ms - int(node.created_at)
        return run
