"""The promises of dispatch on random ways: order, one lease for each node, no idle node while anything
waits unless dispatch is held, nothing started while it is, a busy node never drained, a retired one never used
again, a ticket that left never granted, one that comes back at its place, every ticket accounted for.

The model knows only who waits and who holds a lease; every grant is judged when it is made.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.lease import Lease, LeaseReturned
from proxy.dispatch.line import Ticket
from proxy.dispatch.nodes import IllegalTransition, Node, NodeState
from proxy.errors import LineFull
from tests.promises import hold

CAPACITY = 12
picks = st.integers(0, 10_000)
S = NodeState
WAYS_TO_END = ("free", "free", "unused", "unready", "replace", "settle", "rejoin")


class DispatchPromises(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.busy_time = 0.0
        self.cold = 0
        self.waiting: list[Ticket] = []  # the model of the line
        self.leases: dict[Node, Lease] = {}  # the model of who uses what
        self.over: list[Ticket] = []
        self.returned: list[Lease] = []
        self.is_held = False
        self.retired: set[Node] = set()  # and not restored
        self.inside: str | None = None  # what the next grant does before it returns
        self.dispatcher = Dispatcher(capacity=CAPACITY, grant=self.grant, on_cold=self.on_cold)

    def grant(self, ticket: Ticket, lease: Lease) -> None:
        assert ticket is self.waiting.pop(0), "out of order, or it had left"
        assert not ticket.is_waiting
        assert lease.node not in self.leases, "two leases for one node"
        assert lease.node.state is S.BUSY
        assert lease.node.settling_since is None
        assert not lease.node.is_lost
        assert not self.is_held, "started while held"
        assert lease.node not in self.retired
        self.leases[lease.node] = lease
        inside, self.inside = self.inside, None
        if inside == "join":
            self.join()
        elif inside == "leave" and self.waiting:
            self.leave_waiting(0)
        elif inside is not None and inside != "leave":
            self.end(lease, inside)

    def on_cold(self) -> None:
        self.cold += 1

    def end(self, lease: Lease, how: str) -> None:
        """Return a lease in one of the ways; the model first, since what follows is granted inside the
        call."""
        del self.leases[lease.node]
        self.returned.append(lease)
        if how == "rejoin":
            self.waiting = sorted([*self.waiting, lease.ticket], key=lambda ticket: ticket.number)
            self.dispatcher.rejoin(lease, self.now, "connect refused")
            return
        self.over.append(lease.ticket)
        if how == "unready":
            self.dispatcher.release_unready(lease, self.now, "link broke")
        elif how == "replace":
            self.dispatcher.release_unready(lease, self.now, "timed out", replace=True)
        elif how == "settle":
            self.dispatcher.settle(lease, self.now)
        elif how == "unused":
            self.dispatcher.release_unused(lease, self.now)
        else:
            self.dispatcher.release(lease, self.now)

    @rule(seconds=st.sampled_from((0.25, 1.0, 20.0)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.busy_time += seconds * self.dispatcher.nodes.count(S.BUSY)

    @rule(count=st.integers(1, 4))
    def join_some(self, count: int) -> None:
        for _ in range(count):
            self.join()

    def join(self) -> None:
        ticket = Ticket()
        nodes = list(self.dispatcher.nodes)
        is_cold = all(node.state is S.DRAINING for node in nodes)
        cold = self.cold
        if len(self.waiting) >= CAPACITY and (self.is_held or self.dispatcher.nodes.next_idle is None):
            with pytest.raises(LineFull):
                self.dispatcher.join(ticket, self.now)
            return
        self.waiting.append(ticket)
        self.dispatcher.join(ticket, self.now)
        assert self.cold == cold + is_cold

    @precondition(lambda self: self.waiting)
    @rule(pick=picks)
    def leave_waiting(self, pick: int) -> None:
        ticket = self.waiting.pop(pick % len(self.waiting))
        assert self.dispatcher.leave(ticket)
        self.over.append(ticket)

    @rule(timeout=st.sampled_from((0, 1.0, 60.0)))
    def time_is_up(self, timeout: float) -> None:
        expected = [ticket for ticket in self.waiting if timeout and self.now - ticket.joined_at >= timeout]
        assert self.dispatcher.overdue(self.now, timeout) == expected
        self.waiting = self.waiting[len(expected) :]
        self.over += expected

    @precondition(lambda self: self.leases)
    @rule(pick=picks, ways=st.lists(st.sampled_from(WAYS_TO_END), min_size=1, max_size=5))
    def runs_end(self, pick: int, ways: list[str]) -> None:
        for how in ways:
            if self.leases:
                self.end(list(self.leases.values())[pick % len(self.leases)], how)

    @precondition(lambda self: self.over and self.returned)
    @rule(pick=picks)
    def leave_or_return_again(self, pick: int) -> None:
        assert not self.dispatcher.leave(self.over[pick % len(self.over)])
        with pytest.raises(LeaseReturned):
            self.dispatcher.release(self.returned[pick % len(self.returned)], self.now)

    @rule()
    def hold_or_resume(self) -> None:
        self.is_held = not self.is_held
        if self.is_held:
            self.dispatcher.hold()
        else:
            self.dispatcher.resume(self.now)

    @precondition(lambda self: len(self.dispatcher.nodes) > 0)
    @rule(pick=picks)
    def retire(self, pick: int) -> None:
        node = self.node(pick)
        if node.state is S.DRAINING:
            with pytest.raises(IllegalTransition):
                self.dispatcher.retire(node)
            return
        before = node.state
        self.dispatcher.retire(node)
        self.retired.add(node)
        assert node.state is (S.BUSY if before is S.BUSY else S.DRAINING)

    @precondition(lambda self: any(not node.must_replace for node in self.retired))
    @rule(pick=picks)
    def restore(self, pick: int) -> None:
        retired = sorted((n for n in self.retired if not n.must_replace), key=lambda node: node.number)
        node = retired[pick % len(retired)]
        before = node.state
        self.retired.remove(node)
        if before is S.GONE:
            return
        self.dispatcher.restore(node, self.now)
        assert node.state is (S.BUSY if before is S.BUSY else S.UNREADY)

    @rule(inside=st.sampled_from(("join", "leave", "free", "unused", "unready", "settle", "rejoin")))
    def the_next_grant_calls_back(self, inside: str) -> None:
        self.inside = inside

    @precondition(lambda self: sum(not node.must_replace for node in self.dispatcher.nodes) < 6)
    @rule(is_ready=st.booleans())
    def add(self, is_ready: bool) -> None:
        node = self.dispatcher.add("node", self.now)
        assert (node.state, node.ready_at) == (S.STARTING, None)
        if is_ready:
            self.dispatcher.ready(node, self.now)

    @initialize(count=st.integers(0, 4))
    def begin(self, count: int) -> None:
        for _ in range(count):
            self.add(True)

    @precondition(lambda self: len(self.dispatcher.nodes) > 0)
    @rule(pick=picks, every=st.booleans())
    def ready(self, pick: int, every: bool) -> None:
        for node in list(self.dispatcher.nodes) if every else [self.node(pick)]:
            self.ready_one(node)

    def ready_one(self, node: Node) -> None:
        epoch = node.epoch
        changes = node.state in (S.STARTING, S.UNREADY) or node.settling_since is not None
        self.dispatcher.ready(node, self.now)
        assert (node.epoch > epoch) == (changes and not node.must_replace)

    @precondition(lambda self: len(self.dispatcher.nodes) > 0)
    @rule(pick=picks)
    def unready(self, pick: int) -> None:
        node = self.node(pick)
        before = node.state
        self.dispatcher.unready(node, self.now, "503")
        if before is S.IDLE or (before is S.BUSY and node not in self.leases):
            assert node.state is (S.DRAINING if node in self.retired else S.UNREADY)
        else:
            assert node.state is before

    @precondition(lambda self: len(self.dispatcher.nodes) > 0)
    @rule(pick=picks, is_lost=st.booleans())
    def a_node_goes(self, pick: int, is_lost: bool) -> None:
        node = self.node(pick)
        is_leased = node in self.leases
        if is_lost:
            self.dispatcher.lost(node, self.now)
            assert node.state is (S.BUSY if is_leased else S.GONE)
        elif node.state is S.DRAINING:
            self.dispatcher.remove(node)
            assert node not in list(self.dispatcher.nodes)
        elif node.state is S.BUSY:
            with pytest.raises(IllegalTransition):
                self.dispatcher.drain(node)
        else:
            self.dispatcher.drain(node)

    @rule(seed=st.integers(0, 1 << 30))
    def busy_hour(self, seed: int) -> None:
        """Mostly traffic: hypothesis alone rarely gets as many runs out of a machine with this many rules."""
        random = Random(seed)
        if self.is_held and random.random() < 0.8:
            self.hold_or_resume()
        for _ in range(10):
            self.join()
            self.runs_end(random.randrange(100), random.choices(WAYS_TO_END, k=2))
            if len(self.dispatcher.nodes):
                self.ready(random.randrange(100), random.random() < 0.5)
            self.no_idle_node_while_anything_waits()
            self.a_busy_node_has_one_lease_or_settles()
            self.time_passes(random.choice((0.0, 0.25, 1.0)))

    def node(self, pick: int) -> Node:
        nodes = list(self.dispatcher.nodes)
        return nodes[pick % len(nodes)]

    @invariant()
    def the_line_is_in_order(self) -> None:
        line = self.dispatcher.line
        assert list(line) == self.waiting
        assert len(line) == len(self.waiting)
        assert [ticket.number for ticket in line] == sorted(ticket.number for ticket in line)
        assert [ticket.joined_at for ticket in line] == sorted(ticket.joined_at for ticket in line)
        assert line.oldest_wait(self.now) == max((self.now - t.joined_at for t in self.waiting), default=0)

    @invariant()
    def busy_nodes_are_counted_to_the_instant(self) -> None:
        assert self.dispatcher.nodes.busy_time(self.now) == pytest.approx(self.busy_time)

    @invariant()
    def no_idle_node_while_anything_waits(self) -> None:
        assert self.is_held or not (self.waiting and self.dispatcher.nodes.count(S.IDLE))

    @invariant()
    def a_retired_node_only_ends_its_run(self) -> None:
        for node in self.retired:
            assert node.state in (S.BUSY, S.DRAINING, S.GONE)
            assert node.is_retiring == (node.state is S.BUSY)

    @invariant()
    def a_busy_node_has_one_lease_or_settles(self) -> None:
        for node in self.dispatcher.nodes:
            assert (node.state is S.BUSY) == (node in self.leases or node.settling_since is not None)
            assert node not in self.leases or node.settling_since is None
            assert not node.is_lost or node in self.leases
        assert self.dispatcher.running == len(self.leases)

    @invariant()
    def the_idle_stack_holds_the_idle_nodes(self) -> None:
        nodes = self.dispatcher.nodes
        assert sorted(node.number for node in nodes.idle()) == [n.number for n in nodes if n.state is S.IDLE]
        assert nodes.next_idle is next(nodes.idle(), None)
        for state in S:
            assert state is S.GONE or nodes.count(state) == sum(node.state is state for node in nodes)

    @invariant()
    def every_ticket_is_accounted_for(self) -> None:
        dispatcher = self.dispatcher
        over = dispatcher.served + dispatcher.left
        assert dispatcher.joined == len(dispatcher.line) + dispatcher.running + over
        assert over == len(self.over)


test_dispatch_holds_its_promises = hold(DispatchPromises)
