"""Look, decide, act: at every `scale_check_interval_secs`, and at once when poked.

What always holds: a check is synchronous, so nothing changes between what it sees, what the rules decide and
what the dispatcher is told; what takes time (`Fleet`) runs in tasks. The loop adds no rule of its own: it
holds the cooldowns, the back-off and the last gate before `max_nodes`. While scaling is held it decides nothing;
what the operator has ordered (`Orders`) goes on.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from proxy.config import Config
from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.nodes import Node, NodeState
from proxy.health import Failing
from proxy.providers.base import Provider
from proxy.scaling import rules
from proxy.scaling.demand import Demand
from proxy.scaling.fleet import Fleet
from proxy.scaling.orders import Orders
from proxy.scaling.troubles import Trouble
from proxy.stats import Stats
from proxy.tasks import Tasks

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decision:
    """What was done and why. `at`: the loop's clock; `action`: `up` or `down`; `count`: nodes."""

    at: float
    action: str
    count: int
    reason: str


class ScalingLoop:
    """`clock` is monotonic and the event loop's; `wall` tells Unix seconds, for the age of adopted nodes.

    For the status: `last_check_at`, `last_scale_up_at` and `last_scale_down_at` in the time of `clock`. `orders`
    takes what the operator wants.
    """

    def __init__(
        self,
        provider: Provider,
        dispatcher: Dispatcher,
        config: Config,
        stats: Stats,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        random: Callable[[], float] = random.random,
    ) -> None:
        self.decisions: deque[Decision] = deque(maxlen=50)
        self.is_leader: Callable[[], bool] = lambda: True  # of the proxies that share a database
        self.last_check_at: float | None = None
        self.last_scale_down_at: float | None = None
        self._last_up: tuple[float, list[Node]] | None = None
        self._up_before: float | None = None
        self._provider = provider
        self._dispatcher = dispatcher
        self._config = config
        self._stats = stats
        self._clock = clock
        self._fleet = Fleet(
            provider,
            dispatcher,
            config,
            stats,
            clock=clock,
            wall=wall,
            random=random,
            on_change=self.poke,
        )
        self.orders = Orders(
            self,
            self._fleet,
            dispatcher,
            lambda: self._config,
            can_scale=provider.can_scale,
            clock=clock,
        )
        self._demand: Demand | None = None
        self._starts_told = (0, 0.0)
        self._learn_demand()
        self._tasks = Tasks()
        self._check_timer: asyncio.TimerHandle | None = None
        self._refresh_timer: asyncio.TimerHandle | None = None
        self._poked: asyncio.Handle | None = None
        self._is_running = False

    @property
    def last_error(self) -> str | None:
        """The newest trouble with the provider that has not mended yet."""
        return self._fleet.troubles.last_error

    @property
    def troubles(self) -> Iterable[Trouble]:
        """The last ones, mended or not, newest first."""
        return self._fleet.troubles.recent

    @property
    def failing(self) -> list[Failing]:
        """What of the provider fails now."""
        return self._fleet.troubles.failing

    @property
    def last_scale_up_at(self) -> float | None:
        """When nodes were last asked for by the line. An attempt that definitely made none does not count:
        its next try waits for the back-off, not for the cooldown as well."""
        if self._last_up is not None and not all(map(_was_never_made, self._last_up[1])):
            return self._last_up[0]
        return self._up_before if self._up_before is not None else self._fleet.newest_adopted_at

    def start(self) -> None:
        """Begin with the list of the (started) provider: nothing is created before it has been read."""
        self._is_running = True
        self._start_refresh()
        self._tick()

    async def stop(self) -> None:
        """End every timer and call. Nodes stay, but for `destroy_nodes_on_exit`."""
        self._is_running = False
        await self._tasks.stop()
        for timer in (self._check_timer, self._refresh_timer, self._poked):
            if timer:
                timer.cancel()
        await self._fleet.stop()

    def apply(self, config: Config) -> None:
        """Take over changed limits and intervals, and check at once."""
        self._config = config
        self._learn_demand()
        self._fleet.apply(config)
        if self._is_running:
            self._tick()
            if self._refresh_timer:
                self._start_refresh()

    def poke(self) -> None:
        """Check in the next turn of the event loop: the caller may be in the middle of a change itself."""
        if self._is_running and self._poked is None:
            self._poked = asyncio.get_running_loop().call_soon(self._check_poked)

    def look(self, now: float) -> rules.Seen:
        """What the rules decide by, as it is at this moment."""
        dispatcher = self._dispatcher
        return rules.Seen(
            queue_length=len(dispatcher.line),
            oldest_wait=dispatcher.line.oldest_wait(now),
            running=dispatcher.running,
            nodes=[
                rules.SeenNode(node.number, node.state, node.last_used_at, node.unready_since)
                for node in dispatcher.nodes
            ],
        )

    def check(self) -> None:
        """Replace what is broken, take orders a step further, then do what the rules decide."""
        now = self.last_check_at = self._clock()
        is_held = self.orders.is_held or (self._provider.is_shared and not self.is_leader())
        for fault in self._fleet.tend(now, is_held=is_held):
            self._fleet.destroy(fault.node)
            self._record(now, "down", 1, fault.cause, fault.reason)
        if not self._provider.can_scale or not self._fleet.is_known:
            return
        self.orders.tend()
        if is_held:
            return
        memory = rules.Memory(self.last_scale_up_at, self.last_scale_down_at)
        seen = self.look(now)
        if self._demand is not None:
            self._tell_demand(self._demand, seen)
        policy = self._config.scaling_policy
        for action in rules.decide(policy, seen, memory, self._limits(), now, self._demand):
            if isinstance(action, rules.Up):
                self._scale_up(action)
            else:
                nodes = [self._dispatcher.nodes.get(number) for number in action.numbers]
                self.retire_nodes([node for node in nodes if node], action.cause, action.reason)

    def _scale_up(self, action: rules.Up) -> None:
        # The rules count well; that more than `max_nodes` can never be paid is worth a second lock.
        count = min(action.count, self._config.max_nodes - len(self._dispatcher.nodes))
        if count > 0 and self._fleet.can_create:
            self.add_nodes(count, action.cause, action.reason)

    def add_nodes(self, count: int, cause: str, reason: str) -> list[Node]:
        """Ask for nodes; what keeps the number is no scale-up, so that no cooldown follows."""
        now = self._clock()
        nodes = [self._fleet.create(now) for _ in range(count)]
        if self._demand is not None and cause in ("target", "cold"):
            self._demand.asked(now, count)
        if cause not in ("floor", "replace"):
            self._up_before = self.last_scale_up_at
            self._last_up = (now, nodes)
        self._record(now, "up", count, cause, reason)
        return nodes

    def retire_nodes(self, nodes: Sequence[Node], cause: str, reason: str) -> None:
        """Let nodes go, busy ones when their runs are over."""
        now = self._clock()
        for node in nodes:
            if self._demand is not None and node.last_used_at is not None:
                self._demand.stopped(node.last_used_at)
            self._fleet.retire(node)
        if cause != "replace":
            self.last_scale_down_at = now
        self._record(now, "down", len(nodes), cause, reason)

    def _learn_demand(self) -> None:
        """`target_wait` learns from the line for as long as it is the policy."""
        if self._config.scaling_policy != "target_wait":
            self._demand = self._dispatcher.watcher = None
        elif self._demand is None:
            self._demand = self._dispatcher.watcher = Demand(self._config.target_wait_secs)
        else:
            self._demand.target = self._config.target_wait_secs

    def _tell_demand(self, demand: Demand, seen: rules.Seen) -> None:
        """What the line does not show: how long the nodes that became ready since the last check took to start."""
        demand.limited(len(seen.nodes) >= self._config.max_nodes)
        count, total = sum(self._stats.node_start.counts), self._stats.node_start.total
        told_count, told_total = self._starts_told
        self._starts_told = (count, total)
        for _ in range(count - told_count):
            demand.started((total - told_total) / (count - told_count))

    def _record(self, now: float, action: str, count: int, cause: str, reason: str) -> None:
        self.decisions.append(Decision(now, action, count, reason))
        self._stats.scale_actions[action, cause] += 1
        log.info("scale %s by %d: %s", action, count, reason)

    def _limits(self) -> rules.Limits:
        config = self._config
        return rules.Limits(
            min_nodes=config.min_nodes,
            max_nodes=config.max_nodes,
            max_scale_down_nodes=config.max_scale_down_nodes,
            scale_down_cooldown_secs=config.scale_down_cooldown_secs,
            queue_scale_wait_secs=config.queue_scale_wait_secs,
            queue_scale_count_threshold=config.queue_scale_count_threshold,
            idle_shutdown_secs=config.idle_shutdown_secs,
            scale_up_cooldown_secs=config.scale_up_cooldown_secs,
            target_wait_secs=config.target_wait_secs,
        )

    # timers: the next one is set before the work, so that a fault in a check does not end the checks

    def _tick(self) -> None:
        if self._check_timer:
            self._check_timer.cancel()
        delay = self._config.scale_check_interval_secs
        self._check_timer = asyncio.get_running_loop().call_later(delay, self._tick)
        self.check()

    def _check_poked(self) -> None:
        self._poked = None
        self.check()

    def _start_refresh(self) -> None:
        """One list at a time: the next is due an interval after the last one ended."""
        if self._refresh_timer:
            self._refresh_timer.cancel()
            self._refresh_timer = None
        self._tasks.spawn(self._refresh(), "read the provider's list")

    async def _refresh(self) -> None:
        try:
            await self._fleet.refresh()
        finally:
            delay = self._fleet.next_refresh_secs()
            self._refresh_timer = asyncio.get_running_loop().call_later(delay, self._start_refresh)


def _was_never_made(node: Node) -> bool:
    return node.state is NodeState.GONE and node.id is None
