"""The dispatcher, one promise at a time; `test_promises.py` holds them all at once on random ways."""

from __future__ import annotations

import pytest

from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.lease import Lease, LeaseReturned
from proxy.dispatch.line import Ticket
from proxy.dispatch.nodes import IllegalTransition, Node, NodeState
from proxy.errors import LineFull


class Pool:
    """A dispatcher, the leases it granted in their order, and how often it was cold."""

    def __init__(self, *, capacity: int = 100, ready: int = 0) -> None:
        self.granted: list[Lease] = []
        self.cold = 0
        self.dispatcher = Dispatcher(
            capacity=capacity, grant=lambda _, lease: self.granted.append(lease), on_cold=self._on_cold
        )
        self.nodes = [self.ready_node() for _ in range(ready)]

    def _on_cold(self) -> None:
        self.cold += 1

    def ready_node(self, now: float = 0.0) -> Node:
        node = self.dispatcher.add("node", now)
        self.dispatcher.ready(node, now)
        return node

    def join(self, now: float = 0.0) -> Ticket:
        ticket = Ticket()
        self.dispatcher.join(ticket, now)
        return ticket

    def started(self) -> list[int]:
        return [lease.ticket.number for lease in self.granted]


# joining and pairing


def test_a_request_goes_to_an_idle_node_in_the_same_call() -> None:
    pool = Pool(ready=1)
    ticket = pool.join(1.0)
    (lease,) = pool.granted
    assert (lease.ticket, lease.node, lease.granted_at) == (ticket, pool.nodes[0], 1.0)
    assert (lease.node.state, lease.node.busy_since) == (NodeState.BUSY, 1.0)
    assert (pool.dispatcher.running, len(pool.dispatcher.line)) == (1, 0)


def test_requests_wait_in_order_and_a_freed_node_takes_the_head() -> None:
    pool = Pool(ready=1)
    for _ in range(3):
        pool.join()
    pool.dispatcher.release(pool.granted[0], 5.0)
    pool.dispatcher.release(pool.granted[1], 6.0)
    assert pool.started() == [1, 2, 3]
    node = pool.nodes[0]
    assert (node.served, node.last_processed_at, node.last_used_at, node.ready_at) == (2, 6.0, 6.0, 0.0)


def test_the_most_recently_freed_node_goes_first() -> None:
    pool = Pool(ready=3)
    for _ in range(3):
        pool.join()
    for now, turn in ((1.0, 1), (2.0, 2), (3.0, 0)):
        pool.dispatcher.release(pool.granted[turn], now)
    for _ in range(3):
        pool.join(4.0)
    assert [lease.node.number for lease in pool.granted] == [1, 2, 3, 1, 3, 2]


def test_a_full_line_refuses_with_an_estimate_and_an_idle_node_is_no_line() -> None:
    pool = Pool(capacity=0, ready=1)
    pool.join()
    pool.dispatcher.release(pool.granted[0], 7.5)
    pool.join(10.0)
    with pytest.raises(LineFull, match="0 requests are waiting") as refusal:
        pool.join(10.0)
    assert refusal.value.retry_after_secs == 8
    assert (pool.dispatcher.refused, pool.dispatcher.joined) == (1, 2)


def test_a_request_that_finds_no_node_and_none_starting_is_cold() -> None:
    pool = Pool()
    pool.join()
    pool.join()
    assert pool.cold == 2
    node = pool.dispatcher.add("node", 0.0)
    pool.join()
    assert pool.cold == 2
    pool.dispatcher.drain(node)
    pool.join()
    assert pool.cold == 3


def test_an_unready_node_is_a_node() -> None:
    pool = Pool(ready=1)
    pool.dispatcher.unready(pool.nodes[0], 1.0, "503")
    pool.join()
    assert pool.cold == 0


def test_a_grant_may_end_its_run_and_join_again_inside_the_call() -> None:
    started: list[int] = []

    def grant(ticket: Ticket, lease: Lease) -> None:
        started.append(ticket.number)
        if ticket.number < 5000:
            dispatcher.join(Ticket(), 0.0)
        dispatcher.release(lease, 0.0)

    dispatcher = Dispatcher(capacity=10, grant=grant)
    dispatcher.ready(dispatcher.add("node", 0.0), 0.0)
    dispatcher.join(Ticket(), 0.0)
    assert started == list(range(1, 5001))
    assert (dispatcher.running, dispatcher.served) == (0, 5000)


# leaving


def test_a_ticket_that_left_is_never_granted() -> None:
    pool = Pool(ready=1)
    pool.join()
    second = pool.join()
    pool.join()
    assert pool.dispatcher.leave(second)
    assert not pool.dispatcher.leave(second)
    pool.dispatcher.release(pool.granted[0], 1.0)
    assert pool.started() == [1, 3]
    assert not pool.dispatcher.leave(pool.granted[1].ticket)
    assert pool.dispatcher.left == 1


def test_those_whose_time_is_up_leave_from_the_head() -> None:
    pool = Pool()
    tickets = [pool.join(now) for now in (0.0, 1.0, 2.0)]
    assert pool.dispatcher.overdue(60.9, 60.0) == tickets[:1]
    assert pool.dispatcher.overdue(62.0, 60.0) == tickets[1:]
    assert pool.dispatcher.overdue(63.0, 60.0) == []
    assert pool.dispatcher.left == 3


def test_a_timeout_of_zero_is_none() -> None:
    pool = Pool()
    pool.join()
    assert pool.dispatcher.overdue(1e9, 0) == []


# ways a lease comes back


@pytest.mark.parametrize("how", ["release", "release_unused", "release_unready", "rejoin", "settle"])
def test_a_lease_is_returned_once(how: str) -> None:
    pool = Pool(ready=1)
    pool.join()
    dispatcher, lease = pool.dispatcher, pool.granted[0]
    dispatcher.release(lease, 1.0)
    with pytest.raises(LeaseReturned, match="node 1"):
        getattr(dispatcher, how)(lease, 1.0, *(["broke"] if how in ("release_unready", "rejoin") else []))
    assert (dispatcher.running, dispatcher.served) == (0, 1)


def test_an_unused_lease_leaves_the_node_as_it_was_and_is_no_run() -> None:
    pool = Pool(ready=1)
    pool.join()
    pool.join()
    pool.dispatcher.release_unused(pool.granted[0], 9.0)
    node = pool.nodes[0]
    assert (node.served, node.last_processed_at, node.last_used_at) == (0, None, 0.0)
    assert pool.started() == [1, 2]
    assert (pool.dispatcher.left, pool.dispatcher.served) == (1, 0)


def test_a_broken_run_makes_its_node_unready_until_a_probe() -> None:
    pool = Pool(ready=1)
    pool.join()
    pool.join()
    node = pool.nodes[0]
    pool.dispatcher.release_unready(pool.granted[0], 3.0, "link broke")
    assert (node.state, node.reason, node.unready_since) == (NodeState.UNREADY, "link broke", 3.0)
    assert pool.started() == [1]
    pool.dispatcher.ready(node, 5.0)
    assert pool.started() == [1, 2]
    assert (node.reason, node.unready_since, node.ready_at, node.last_used_at) == (None, None, 0.0, 3.0)


def test_no_probe_makes_a_node_that_must_be_replaced_ready() -> None:
    pool = Pool(ready=1)
    pool.join()
    pool.dispatcher.release_unready(pool.granted[0], 3.0, "timed out", replace=True)
    pool.dispatcher.ready(pool.nodes[0], 4.0)
    assert pool.nodes[0].state is NodeState.UNREADY
    assert pool.nodes[0].must_replace


@pytest.mark.parametrize("how", ["release", "release_unused", "settle"])
def test_a_leased_node_that_must_be_replaced_is_not_used_again(how: str) -> None:
    pool = Pool(ready=1)
    pool.join()
    pool.join()
    pool.nodes[0].must_replace = True
    getattr(pool.dispatcher, how)(pool.granted[0], 2.0)
    assert (pool.nodes[0].state, pool.nodes[0].reason) == (NodeState.UNREADY, "to be replaced")
    assert pool.started() == [1]


def test_a_request_sent_again_overtakes_everyone_and_is_not_overtaken() -> None:
    pool = Pool(ready=2)
    for _ in range(4):
        pool.join()
    first, second = pool.granted
    pool.dispatcher.rejoin(second, 1.0, "connect refused")
    pool.dispatcher.rejoin(first, 1.0, "connect refused")
    assert [ticket.number for ticket in pool.dispatcher.line] == [1, 2, 3, 4]
    assert pool.dispatcher.nodes.count(NodeState.UNREADY) == 2
    pool.dispatcher.ready(pool.nodes[1], 2.0)
    assert pool.started() == [1, 2, 1]
    assert pool.dispatcher.served == 0


def test_a_request_sent_again_goes_to_another_idle_node_at_once() -> None:
    pool = Pool(ready=2)
    pool.join()
    refused = pool.granted[0]
    pool.dispatcher.rejoin(refused, 1.0, "connect refused")
    assert pool.granted[1].ticket is refused.ticket
    assert pool.granted[1].node is not refused.node


def test_a_settling_node_is_busy_with_no_request_until_its_probe() -> None:
    pool = Pool(ready=1)
    pool.join()
    pool.join()
    node = pool.nodes[0]
    epoch = node.epoch
    pool.dispatcher.settle(pool.granted[0], 2.0)
    assert (node.state, node.settling_since, pool.dispatcher.running) == (NodeState.BUSY, 2.0, 0)
    assert node.epoch > epoch
    pool.dispatcher.ready(node, 8.0)
    assert pool.started() == [1, 2]
    assert (node.settling_since, node.last_processed_at, node.last_used_at) == (None, 8.0, 8.0)


def test_a_settling_node_can_turn_out_dead() -> None:
    pool = Pool(ready=1)
    pool.join()
    pool.dispatcher.settle(pool.granted[0], 2.0)
    pool.dispatcher.unready(pool.nodes[0], 3.0, "connect refused")
    assert (pool.nodes[0].state, pool.nodes[0].settling_since) == (NodeState.UNREADY, None)


# probes


def test_a_late_probe_changes_nothing_for_a_leased_node() -> None:
    pool = Pool(ready=1)
    pool.join()
    pool.dispatcher.ready(pool.nodes[0], 1.0)
    pool.dispatcher.unready(pool.nodes[0], 1.0, "timed out")
    assert pool.nodes[0].state is NodeState.BUSY


def test_a_late_probe_changes_nothing_for_a_node_that_goes() -> None:
    pool = Pool(ready=1)
    pool.dispatcher.drain(pool.nodes[0])
    pool.dispatcher.ready(pool.nodes[0], 1.0)
    pool.dispatcher.unready(pool.nodes[0], 1.0, "timed out")
    assert pool.nodes[0].state is NodeState.DRAINING


def test_a_starting_node_stays_starting_and_an_unready_one_unready_since_it_was() -> None:
    pool = Pool(ready=1)
    starting = pool.dispatcher.add(
        "node", 0.0, id="t-1", url="http://[::1]:8188", is_running=True, created_at=-3.0
    )
    pool.dispatcher.unready(starting, 1.0, "503")
    pool.dispatcher.unready(pool.nodes[0], 1.0, "503")
    pool.dispatcher.unready(pool.nodes[0], 2.0, "connect refused")
    assert (starting.state, starting.id, starting.created_at) == (NodeState.STARTING, "t-1", -3.0)
    assert (pool.nodes[0].unready_since, pool.nodes[0].reason) == (1.0, "503")


# nodes that go


def test_nothing_is_sent_to_a_draining_node_and_a_busy_one_is_never_drained() -> None:
    pool = Pool(ready=2)
    pool.dispatcher.drain(pool.nodes[0])
    pool.join()
    pool.join()
    assert [lease.node for lease in pool.granted] == [pool.nodes[1]]
    with pytest.raises(IllegalTransition):
        pool.dispatcher.drain(pool.nodes[1])
    pool.dispatcher.remove(pool.nodes[0])
    assert list(pool.dispatcher.nodes) == [pool.nodes[1]]


@pytest.mark.parametrize("how", ["starting", "idle", "unready", "draining"])
def test_a_lost_node_is_forgotten(how: str) -> None:
    pool = Pool()
    dispatcher = pool.dispatcher
    node = dispatcher.add("node", 0.0) if how == "starting" else pool.ready_node()
    if how == "unready":
        dispatcher.unready(node, 0.0, "503")
    if how == "draining":
        dispatcher.drain(node)
    dispatcher.lost(node, 1.0)
    assert (node.state, len(dispatcher.nodes)) == (NodeState.GONE, 0)


@pytest.mark.parametrize("how", ["release", "release_unused", "settle", "release_unready", "rejoin"])
def test_a_lost_leased_node_finishes_and_is_forgotten(how: str) -> None:
    pool = Pool(ready=1)
    pool.join()
    pool.join()
    node = pool.nodes[0]
    pool.dispatcher.lost(node, 1.0)
    assert (node.state, node.is_lost) == (NodeState.BUSY, True)
    getattr(pool.dispatcher, how)(
        pool.granted[0], 2.0, *(["broke"] if how in ("release_unready", "rejoin") else [])
    )
    assert (node.state, len(pool.dispatcher.nodes), pool.started()) == (NodeState.GONE, 0, [1])


def test_a_lost_settling_node_is_forgotten_at_once() -> None:
    pool = Pool(ready=1)
    pool.join()
    pool.dispatcher.settle(pool.granted[0], 1.0)
    pool.dispatcher.lost(pool.nodes[0], 2.0)
    assert len(pool.dispatcher.nodes) == 0


# the estimate


def test_the_estimate_is_the_work_ahead_shared_by_the_nodes_and_at_least_one() -> None:
    pool = Pool(ready=2)
    assert pool.dispatcher.estimate(0.0) == 1
    pool.join(0.0)
    pool.dispatcher.release(pool.granted[0], 10.0)
    for _ in range(5):
        pool.join(10.0)
    assert pool.dispatcher.estimate(10.0) == 25  # (3 waiting + 2 running) x 10 / 2
    pool.dispatcher.add("node", 10.0)
    assert pool.dispatcher.estimate(10.0) == 17  # a starting node will be ready


def test_the_estimate_follows_the_last_runs_and_counts_work_after_the_answer() -> None:
    pool = Pool(ready=1)
    for turn in range(200):
        pool.join(0.0)
        pool.dispatcher.settle(pool.granted[turn], 1.0)
        pool.dispatcher.ready(pool.nodes[0], 3.0 if turn < 100 else 60.0)
    pool.join(0.0)
    assert 55 <= pool.dispatcher.estimate(0.0) <= 60


# held and retired


def test_while_held_nothing_starts_and_afterwards_all_in_order() -> None:
    pool = Pool(ready=2)
    pool.dispatcher.hold()
    for _ in range(3):
        pool.join(1.0)
    pool.ready_node(2.0)
    assert (pool.granted, len(pool.dispatcher.line), pool.cold) == ([], 3, 0)
    pool.dispatcher.resume(5.0)
    assert pool.started() == [1, 2, 3]
    assert {lease.granted_at for lease in pool.granted} == {5.0}


def test_what_runs_goes_on_while_held_and_time_limits_too() -> None:
    pool = Pool(ready=1, capacity=1)
    pool.join(0.0)
    pool.dispatcher.hold()
    waiting = pool.join(1.0)
    with pytest.raises(LineFull):
        pool.join(1.0)
    pool.dispatcher.release(pool.granted[0], 2.0)
    with pytest.raises(LineFull):
        pool.join(3.0)
    assert (pool.started(), pool.dispatcher.running) == ([1], 0)
    assert pool.dispatcher.overdue(11.0, 10.0) == [waiting]


def test_a_hold_inside_a_grant_counts_at_once() -> None:
    pool = Pool()

    def grant(ticket: Ticket, lease: Lease) -> None:
        pool.granted.append(lease)
        dispatcher.hold()

    dispatcher = pool.dispatcher = Dispatcher(capacity=9, grant=grant)
    for _ in range(3):
        pool.join()
    for _ in range(3):
        pool.ready_node()
    assert pool.started() == [1]


@pytest.mark.parametrize("end", ["release", "release_unused", "release_unready"])
def test_a_retired_busy_node_drains_when_its_run_ends(end: str) -> None:
    pool = Pool(ready=1)
    pool.join()
    pool.join()
    [node] = pool.nodes
    pool.dispatcher.retire(node)
    assert (node.state, node.is_retiring) == (NodeState.BUSY, True)
    why = ("link broke",) if end == "release_unready" else ()
    getattr(pool.dispatcher, end)(pool.granted[0], 1.0, *why)
    assert (node.state, node.is_retiring, pool.started()) == (NodeState.DRAINING, False, [1])


def test_a_retired_node_that_settles_works_on() -> None:
    pool = Pool(ready=1)
    pool.join()
    [node] = pool.nodes
    pool.dispatcher.retire(node)
    pool.dispatcher.settle(pool.granted[0], 1.0)
    states = [node.state]
    pool.dispatcher.ready(node, 2.0)
    assert [*states, node.state] == [NodeState.BUSY, NodeState.DRAINING]


def test_a_drained_node_that_is_restored_must_pass_its_probe() -> None:
    pool = Pool(ready=1)
    [node] = pool.nodes
    pool.dispatcher.retire(node)
    pool.join(1.0)
    pool.dispatcher.ready(node, 2.0)
    assert node.state is NodeState.DRAINING
    pool.dispatcher.restore(node, 3.0)
    assert (node.state, node.unready_since, pool.granted) == (NodeState.UNREADY, 3.0, [])
    pool.dispatcher.ready(node, 4.0)
    assert pool.started() == [1]


# tickets that left for a while


def test_a_ticket_that_left_comes_back_to_its_place() -> None:
    pool = Pool(ready=1)
    first, second, third = (pool.join() for _ in range(3))
    dispatcher = pool.dispatcher
    assert dispatcher.leave(second)
    assert dispatcher.left == 1
    dispatcher.readmit(second, 1.0)
    assert (list(dispatcher.line), dispatcher.left) == ([second, third], 0)
    dispatcher.release_unused(pool.granted[0], 2.0)  # the first steps aside, and the second is given its node
    dispatcher.readmit(first, 3.0)
    assert list(dispatcher.line) == [first, third]
    dispatcher.release(pool.granted[1], 4.0)
    assert pool.started() == [1, 2, 1]
    assert (
        dispatcher.joined == len(dispatcher.line) + dispatcher.running + dispatcher.served + dispatcher.left
    )


def test_one_that_comes_back_to_an_idle_node_starts() -> None:
    pool = Pool(ready=1)
    ticket = pool.join()
    pool.dispatcher.release_unused(pool.granted[0], 1.0)
    pool.dispatcher.readmit(ticket, 2.0)
    assert pool.started() == [1, 1]
    with pytest.raises(ValueError):
        pool.dispatcher.readmit(Ticket(), 3.0)  # it never joined


def test_room_is_kept_for_those_about_to_join() -> None:
    pool = Pool(capacity=2)
    dispatcher = pool.dispatcher
    pool.join()
    dispatcher.check_room(0.0)
    with pytest.raises(LineFull, match="2 requests are waiting"):
        dispatcher.check_room(0.0, coming=1)
    assert dispatcher.refused == 1
    pool.ready_node()  # the one that waits starts
    pool.ready_node()
    dispatcher.check_room(0.0, coming=2)  # an idle node is no line
