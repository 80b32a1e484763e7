"""The nodes we pay for, held against the provider's list: create, adopt, lose, replace, drain, destroy.

What always holds:
- A node is in the dispatcher, and so counted as paid, before its create is sent, until its create has
  definitely failed, its destroy has succeeded, or the list has proved it absent.
- Nothing is created before the list has been read once: what an earlier process left is adopted first.
- A node is drained, in the same step as the decision, before its destroy is sent; it is never used again.
- A list proves absence only if it began after all we know of the node (`Record`), and only twice in a row.
- Every call is a task of its own: a slow one delays no other and no check.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator

from proxy.config import Config
from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.nodes import Node, NodeState
from proxy.errors import ProviderError
from proxy.providers.base import ListedNode, Provider
from proxy.scaling.record import LIST_LAG_SECS, Fault, Record
from proxy.scaling.troubles import FIRST_SECS, Backoff, Troubles
from proxy.stats import Stats
from proxy.tasks import Tasks

log = logging.getLogger(__name__)


class Fleet:
    """`on_change` is called when a node has gone and when the first list has been read."""

    def __init__(
        self,
        provider: Provider,
        dispatcher: Dispatcher,
        config: Config,
        stats: Stats,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
        random: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        self.is_known = False  # the list has been read
        self.newest_adopted_at: float | None = None  # creation of the youngest node found at the start
        self._provider = provider
        self._dispatcher = dispatcher
        self._config = config
        self._stats = stats
        self._clock = clock
        self._wall = wall
        self._random = random
        self._on_change = on_change
        self._records: dict[int, Record] = {}
        self._destroyed: dict[str, float] = {}  # ids that the list may still show, and when they went
        self.troubles = Troubles(stats, clock=clock, random=random)
        self._tasks = Tasks()
        self._counted_at = clock()

    @property
    def can_create(self) -> bool:
        """Whether a create may be sent now: failed creates and failed starts both put it off."""
        return self.is_known and not self.troubles.delay("create") and not self.troubles.delay("start")

    def apply(self, config: Config) -> None:
        """A changed configuration may have mended what failed: try again at once."""
        self._config = config
        self.troubles.forget()

    def count_paid(self, now: float) -> None:
        """Add the time since the last call to the paid seconds of every node."""
        self._stats.node_paid_seconds += len(self._dispatcher.nodes) * (now - self._counted_at)
        self._counted_at = now

    # create

    def create(self, now: float) -> Node:
        """Ask for one node; it counts from here on."""
        record = self._add(self._provider.new_name(), now)
        record.call = self._tasks.spawn(self._create(record), f"create {record.node.name}")
        return record.node

    async def _create(self, record: Record) -> None:
        node = record.node
        try:
            listed = await self._provider.create(node.name)
        except ProviderError as error:
            self.troubles.fail("create", error)
            # A list that shows the node knows better than the call that failed.
            if not error.may_have_worked and node.id is None:
                self._remove(record)
        else:
            self._update(record, listed)
        finally:
            record.end_create(self._clock())

    # drain and destroy

    def destroy(self, node: Node) -> None:
        """Take an idle, unready or starting node out of use now, then out of the cloud; raises
        `IllegalTransition` for a busy one. A failed destroy is tried again, with back-off, until it works
        or the list lacks the node."""
        self._dispatcher.drain(node)
        record = self._records[node.number]
        if record.call:
            record.call.cancel()  # a create that hangs; the list will tell whether there is a node to destroy
        elif node.id is not None:
            self._send_destroy(record, node.id)

    def retire(self, node: Node) -> None:
        """`destroy` it, a busy one when its run is over; where nothing can be destroyed it is out of use then."""
        if node.state is NodeState.BUSY or not self._provider.can_scale:
            self._dispatcher.retire(node)  # `tend` destroys what has become draining
        else:
            self.destroy(node)

    def _send_destroy(self, record: Record, node_id: str) -> None:
        record.call = self._tasks.spawn(self._destroy(record, node_id), f"destroy {record.node.name}")

    async def _destroy(self, record: Record, node_id: str) -> None:
        backoff = Backoff(self._random)
        try:
            while True:
                try:
                    await self._provider.destroy(node_id)
                except ProviderError as error:
                    self.troubles.fail("destroy", error, backoff)
                    await asyncio.sleep(backoff.delay(self._clock()))
                else:
                    break
        finally:
            record.call = None
        self.troubles.succeed("destroy")
        self._destroyed[node_id] = self._clock()
        self._remove(record)

    async def stop(self) -> None:
        """End every call. With `destroy_nodes_on_exit` all nodes go, busy ones too: their time is over."""
        if self._config.destroy_nodes_on_exit and self._provider.can_scale:
            # Creates in flight, and those that were never heard of, must not outlive us unknown.
            creates = [record.call for record in self._records.values() if record.call and not record.node.id]
            await asyncio.gather(*creates, return_exceptions=True)
            await self.refresh()
            ids = [node.id for node in self._dispatcher.nodes if node.id is not None]
            for outcome in await asyncio.gather(*map(self._provider.destroy, ids), return_exceptions=True):
                if isinstance(outcome, BaseException):
                    log.error("a node was not destroyed at exit: %s", outcome)
        await self._tasks.stop()

    # the provider's list

    async def refresh(self) -> None:
        """Read the list and take it for the truth; a failure is noted and changes nothing."""
        began = self._clock()
        try:
            listed = await self._provider.list()
        except ProviderError as error:
            self.troubles.fail("list", error)
            return
        self.troubles.succeed("list")
        self._compare(listed, began, self._clock())
        if not self.is_known:
            self.is_known = True
            births = [self._born_at(item) for item in listed if item.created_at is not None]
            self.newest_adopted_at = max(births, default=None)
            self._on_change()

    def next_refresh_secs(self) -> float:
        """Until the list should be read again; the first one is waited for, so it is tried again sooner."""
        usual = self._config.node_refresh_interval_secs
        return max(usual if self.is_known else min(usual, FIRST_SECS), self.troubles.delay("list"))

    def _compare(self, listed: list[ListedNode], began: float, now: float) -> None:
        by_id = {record.node.id: record for record in self._records.values() if record.node.id is not None}
        by_name = {record.node.name: record for record in self._records.values() if record.node.id is None}
        seen: set[Record] = set()
        for item in listed:
            record = by_id.get(item.id) or by_name.pop(item.name, None)
            if record is None:
                gone_at = self._destroyed.get(item.id, -math.inf)
                if began < gone_at + LIST_LAG_SECS:
                    continue  # the list trails behind our destroy
                record = self._adopt(item, now)
            seen.add(record)
            record.see(began)
            self._update(record, item)
        for record in set(self._records.values()) - seen:
            if record.miss(began):
                self._lose(record, now)
        listed_ids = {item.id for item in listed}
        self._destroyed = {
            node_id: gone_at
            for node_id, gone_at in self._destroyed.items()
            if node_id in listed_ids or began < gone_at + LIST_LAG_SECS
        }

    def _adopt(self, item: ListedNode, now: float) -> Record:
        record = self._add(item.name, now, node_id=item.id, created_at=self._born_at(item))
        if item.id in self._destroyed:
            # Its destroy was reported done, yet it lives: paid for, dying or not, never to be used.
            self._dispatcher.drain(record.node)
        log.info("found node %s (%s)", item.name, item.id)
        return record

    def _born_at(self, item: ListedNode) -> float:
        """In the time of `clock`; now where the provider does not say, or its clock is ahead of ours."""
        age = 0.0 if item.created_at is None else max(0.0, self._wall() - item.created_at)
        return self._clock() - age

    def _update(self, record: Record, item: ListedNode) -> None:
        node, now = record.node, self._clock()
        if node.id is None:  # its create worked, whatever was heard of it
            node.id = item.id
            self.troubles.succeed("create")
        node.is_running = item.is_running
        node.is_lost = False
        if node.state is NodeState.BUSY:
            return  # the address of a run is not changed under it; the next list comes soon
        reason = None if item.is_running else "its provider says that it does not run"
        if item.url is not None and item.url != node.url:
            node.url, reason = item.url, "its address has changed"
        if reason and node.state is NodeState.IDLE:
            self._dispatcher.unready(node, now, reason)

    def _lose(self, record: Record, now: float) -> None:
        node = record.node
        if node.is_lost:
            return  # busy; it goes when its run ends
        log.warning("node %s (%s) is in the provider's list no more", node.name, node.id)
        if record.call:
            record.call.cancel()
        if node.state is NodeState.DRAINING:
            self.troubles.succeed("destroy")
        if node.state is NodeState.STARTING and node.id is not None:
            self.troubles.fail("start", ProviderError(f"{node.name} was gone before it was ready"))
        self.count_paid(now)
        self._dispatcher.lost(node, now)
        if node.state is NodeState.GONE:
            del self._records[node.number]
            self._on_change()

    # upkeep

    def tend(self, now: float, *, is_held: bool = False) -> Iterator[Fault]:
        """Note what became of the nodes since the last check, and tell, unless held, which should be replaced."""
        self.count_paid(now)
        for record in list(self._records.values()):
            node = record.node
            if node.state is NodeState.GONE:
                del self._records[node.number]
                continue
            if node.ready_at is not None and not record.was_ready:
                record.was_ready = True
                self.troubles.succeed("start")
                if not record.is_adopted:
                    self._stats.node_start.observe(node.ready_at - node.created_at)
            self._end_settling(node, now)
            if not self._provider.can_scale:
                continue
            if node.state is NodeState.DRAINING:
                if node.id is not None and record.call is None:
                    self._send_destroy(record, node.id)
            elif node.state is NodeState.BUSY or is_held:
                continue
            elif fault := record.find_fault(self._config, now):
                if node.state is NodeState.STARTING:
                    self.troubles.fail("start", ProviderError(fault.reason))
                yield fault

    def _end_settling(self, node: Node, now: float) -> None:
        """A node that answered, but whose probe says for longer than a run may take that it still works."""
        limit = self._config.run_timeout_secs
        if node.settling_since is not None and (age := now - node.settling_since) > limit:
            self._dispatcher.unready(
                node, now, f"it worked on for {age:.1f} s > {limit:g} s after its answer"
            )
            node.must_replace = self._provider.can_scale

    # bookkeeping

    def _add(
        self, name: str, now: float, *, node_id: str | None = None, created_at: float | None = None
    ) -> Record:
        self.count_paid(now)
        node = self._dispatcher.add(name, now, id=node_id, created_at=created_at)
        record = self._records[node.number] = Record(node, now, is_adopted=node_id is not None)
        return record

    def _remove(self, record: Record) -> None:
        self.count_paid(self._clock())
        if record.node.state is not NodeState.DRAINING:
            self._dispatcher.drain(record.node)
        self._dispatcher.remove(record.node)
        del self._records[record.node.number]
        self._on_change()
