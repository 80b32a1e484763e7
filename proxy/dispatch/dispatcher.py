"""Who goes where: the line, the nodes, and the one function that pairs them.

Always, when a call returns: no idle node while anything waits, unless held; a busy node has exactly one lease
that is not returned, or settles; `joined == len(line) + running + served + left`.

Every method is synchronous, is told the time (`now`, in any one unit) and pairs before it returns: what a
change makes possible happens in the same turn of the event loop. `grant` is called inside and may call back.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from proxy.dispatch.lease import Lease, LeaseReturned, Watcher
from proxy.dispatch.line import Line, Ticket
from proxy.dispatch.nodes import BUSY, DRAINING, GONE, IDLE, STARTING, UNREADY, Node, Nodes
from proxy.errors import LineFull

_RECENT_RUNS = 32  # the mean run time follows about so many of the last runs


class Dispatcher:
    """Pairs the head of the line with the most recently freed idle node.

    `grant(ticket, lease)` sends the request and must not raise; `on_cold()` is told of a ticket that joins
    while there is no node and none starting. `capacity`: the most tickets that may wait; it may change at
    any time. `is_held`: nothing is started; what runs goes on, what waits keeps its place and its time limit.

    Counts since the start: `joined`, `refused` (line full), `served` (runs that are over, however they
    ended), `left` (tickets over without a run: the client left, or the time was up). `running`: leases not
    returned yet.
    """

    __slots__ = (
        "_grant",
        "_is_pairing",
        "_mean_run",
        "_on_cold",
        "_runs",
        "capacity",
        "is_held",
        "joined",
        "left",
        "line",
        "nodes",
        "refused",
        "running",
        "served",
        "watcher",
    )

    def __init__(
        self,
        *,
        capacity: int,
        grant: Callable[[Ticket, Lease], None],
        on_cold: Callable[[], None] = lambda: None,
    ) -> None:
        self.line = Line()
        self.nodes = Nodes()
        self.capacity = capacity
        self.is_held = False
        self.joined = self.served = self.left = self.refused = self.running = 0
        self._grant = grant
        self._on_cold = on_cold
        self.watcher: Watcher | None = None
        self._is_pairing = False
        self._mean_run = 0.0
        self._runs = 0

    # tickets

    def join(self, ticket: Ticket, now: float) -> None:
        """Put a new ticket at the tail. Raises `errors.LineFull` when as many wait as may."""
        if len(self.line) >= self.capacity:
            self.check_room(now)
        nodes = self.nodes
        self.line.join(ticket, now)
        self.joined += 1
        if self.watcher is not None:
            self.watcher.joined(now)
        if nodes.next_idle is not None:
            self._pair(now)
        elif len(nodes) == nodes.count(DRAINING):
            self._on_cold()

    def check_room(self, now: float, coming: int = 0) -> None:
        """Raises `errors.LineFull` where no ticket could join; `coming`: how many are about to."""
        waiting = len(self.line) + coming
        if waiting >= self.capacity and (self.nodes.next_idle is None or self.is_held):
            self.refused += 1
            raise LineFull(f"{waiting} requests are waiting", retry_after_secs=self.estimate(now))

    def readmit(self, ticket: Ticket, now: float) -> None:
        """A ticket that had left (`leave`, `release_unused`) comes back to its place; no capacity limits it."""
        self.line.rejoin(ticket)
        self.left -= 1
        self._pair(now)

    def leave(self, ticket: Ticket) -> bool:
        """The client of a waiting ticket left. False when it does not wait, so that nothing changes."""
        if not self.line.leave(ticket):
            return False
        self.left += 1
        return True

    def overdue(self, now: float, timeout: float) -> list[Ticket]:
        """Take out and return those that have waited `timeout` or longer, the oldest first; 0 is no
        timeout."""
        over: list[Ticket] = []
        while timeout and (head := self.line.head) is not None and now - head.joined_at >= timeout:
            self.leave(head)
            over.append(head)
        return over

    def estimate(self, now: float) -> int:
        """When to try again, in whole units of time, at least 1: (waiting + running) x mean recent run time
        / nodes that are or will be ready."""
        return self.estimate_behind(len(self.line) + self.running)

    def estimate_behind(self, ahead: int) -> int:
        """The same for one that has so many waiting and running before it."""
        nodes = len(self.nodes) - self.nodes.count(DRAINING)
        return max(1, ceil(ahead * self._mean_run / max(nodes, 1)))

    def hold(self) -> None:
        """Start nothing until `resume`."""
        self.is_held = True

    def resume(self, now: float) -> None:
        self.is_held = False
        self._pair(now)

    # leases

    def release(self, lease: Lease, now: float) -> None:
        """The run is over and its node free for the next one. All `release` methods raise LeaseReturned."""
        self._end_run(lease, now)
        self._record_run(now - lease.granted_at)
        self._free(lease.node, now)
        self._pair(now)

    def release_unused(self, lease: Lease, now: float) -> None:
        """Nothing was sent (the client left while its node was being connected): the node is free, as
        before."""
        self._return(lease)
        self.left += 1
        self._free(lease.node, now)
        self._pair(now)

    def release_unready(self, lease: Lease, now: float, reason: str, *, replace: bool = False) -> None:
        """The run ended badly (link broke, aborted, timed out): its node must pass its probe before another.

        With `replace` no probe makes it ready again: only for a provider that can make another one.
        """
        self._end_run(lease, now)
        self._set_unready(lease.node, now, reason, replace=replace)
        self._pair(now)

    def rejoin(self, lease: Lease, now: float, reason: str, *, replace: bool = False) -> None:
        """The request is to be sent again: its node is unready, and its ticket back at its place before
        anything is paired, so that nobody overtakes it. It keeps its `joined_at`; no capacity limits it."""
        self._return(lease)
        self.line.rejoin(lease.ticket)
        self._set_unready(lease.node, now, reason, replace=replace)
        self._pair(now)

    def settle(self, lease: Lease, now: float) -> None:
        """The request is answered, but its node stays busy until `ready` (or `unready`) is told of it."""
        self._end_run(lease, now)
        node = lease.node
        node.settling_since = now
        node.epoch += 1
        if node.is_lost or node.must_replace:
            self._free(node, now)
            self._pair(now)

    # nodes

    def add(
        self,
        name: str,
        now: float,
        *,
        id: str | None = None,
        url: str | None = None,
        is_running: bool = False,
        created_at: float | None = None,
    ) -> Node:
        """A node that was asked for, or adopted: starting until `ready`. `created_at`: in the time of
        `now`."""
        created_at = now if created_at is None else created_at
        return self.nodes.add(name, created_at, id=id, url=url, is_running=is_running)

    def ready(self, node: Node, now: float) -> None:
        """Its probe answered 200. A node that is idle, leased, draining, gone or to be replaced stays so."""
        if node.must_replace:
            return
        if node.state is BUSY and node.settling_since is not None:
            node.last_used_at = node.last_processed_at = now
            self._record_run(now - node.busy_since)
        elif node.state is not STARTING and node.state is not UNREADY:
            return
        if node.ready_at is None:
            node.ready_at = node.last_used_at = now
        self._free(node, now)
        self._pair(now)

    def unready(self, node: Node, now: float, reason: str) -> None:
        """Its probe failed. Only an idle or settling node becomes unready: a starting one is not ready yet, a
        leased one is the exchange's to judge, and an unready one is unready since it first was."""
        if node.state is IDLE or node.settling_since is not None:
            self._set_unready(node, now, reason)

    def drain(self, node: Node) -> None:
        """It will be destroyed: nothing is sent to it any more. Raises IllegalTransition for a busy one."""
        self.nodes.move(node, DRAINING)
        node.is_retiring = False

    def retire(self, node: Node) -> None:
        """Drain it, a busy one as soon as its run is over and it has settled."""
        if node.state is BUSY:
            node.is_retiring = True
        else:
            self.drain(node)

    def restore(self, node: Node, now: float) -> None:
        """Take `retire` back, for a node that nobody destroys: a drained one must pass its probe first."""
        node.is_retiring = False
        if node.state is DRAINING:
            self._set_unready(node, now, "in use again, not probed yet")

    def remove(self, node: Node) -> None:
        """A draining node is destroyed: forget it."""
        self.nodes.move(node, GONE)

    def lost(self, node: Node, now: float) -> None:
        """Its provider lists it no longer: forget it; a leased one when its run is over."""
        node.is_lost = True
        if node.state is not BUSY:
            self._forget(node)
        elif node.settling_since is not None:
            self._set_unready(node, now, "lost")

    # inside

    def _pair(self, now: float) -> None:
        """The one pairing function. A `grant` that calls back ends up here again and returns at once: the
        loop that called it goes on with what it changed, so the stack does not grow and the order holds."""
        if self._is_pairing:
            return
        self._is_pairing = True
        line, nodes = self.line, self.nodes
        try:
            while not self.is_held and line.head is not None and (node := nodes.next_idle) is not None:
                nodes.begin_busy(node, now)
                self.running += 1
                ticket = line.pop()
                if self.watcher is not None:
                    self.watcher.granted(now - ticket.joined_at, now - (node.last_used_at or now))
                self._grant(ticket, Lease(node, ticket, now))
        finally:
            self._is_pairing = False

    def _return(self, lease: Lease) -> None:
        if lease.is_returned:
            raise LeaseReturned(f"the lease of node {lease.node.number} was returned before")
        lease.is_returned = True
        self.running -= 1

    def _end_run(self, lease: Lease, now: float) -> None:
        self._return(lease)
        self.served += 1
        node = lease.node
        node.served += 1
        node.last_used_at = node.last_processed_at = now

    def _record_run(self, run: float) -> None:
        if self.watcher is not None:
            self.watcher.ended(run)
        self._runs = min(self._runs + 1, _RECENT_RUNS)
        self._mean_run += (run - self._mean_run) / self._runs

    def _free(self, node: Node, now: float) -> None:
        """Idle again, unless it is to go."""
        if node.is_lost or node.must_replace or node.is_retiring:
            self._set_unready(node, now, "lost" if node.is_lost else "to be replaced")
            return
        node.settling_since = node.unready_since = node.reason = None
        self.nodes.end_busy(node, now)
        self.nodes.move(node, IDLE, now)

    def _set_unready(self, node: Node, now: float, reason: str, *, replace: bool = False) -> None:
        self.nodes.end_busy(node, now)
        self.nodes.move(node, UNREADY)
        node.settling_since = None
        node.unready_since = now
        node.reason = reason
        node.must_replace = node.must_replace or replace
        if node.is_lost:
            self._forget(node)
        elif node.is_retiring:
            self.drain(node)

    def _forget(self, node: Node) -> None:
        if node.state is not DRAINING:
            self.drain(node)
        self.remove(node)
