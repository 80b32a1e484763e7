"""What an operator orders of the nodes, and what of it takes more than one check.

A replacement begins with its new node where `max_nodes` has room: the old one goes when the new one is ready, and
stays if that one fails. Without room the old one goes first and the new one is asked for when it has gone.

Always: a busy node ends its run before it goes; `max_nodes` is never exceeded; an order is carried out also while
scaling is held, for a hold binds the scaler and not the operator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from proxy.config import Config
from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.nodes import Node, NodeState
from proxy.errors import NotPossibleNow
from proxy.scaling.fleet import Fleet

log = logging.getLogger(__name__)

_STATIC = "static nodes are fixed in the configuration"


class Act(Protocol):
    """How the loop creates and retires, so that it is counted, shown and followed by the cooldowns."""

    def add_nodes(self, count: int, cause: str, reason: str) -> list[Node]: ...
    def retire_nodes(self, nodes: Sequence[Node], cause: str, reason: str) -> None: ...
    def poke(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Replacement:
    """`fresh`: None where the old one must go first."""

    old: Node
    fresh: Node | None


class Orders:
    """Each order answers with a sentence about what happens now, or raises NotPossibleNow.

    `is_held`: the scaler does nothing by itself, the floor included.
    """

    def __init__(
        self,
        act: Act,
        fleet: Fleet,
        dispatcher: Dispatcher,
        config: Callable[[], Config],
        *,
        can_scale: bool,
        clock: Callable[[], float],
    ) -> None:
        self.is_held = False
        self._act = act
        self._fleet = fleet
        self._dispatcher = dispatcher
        self._config = config
        self._can_scale = can_scale
        self._clock = clock
        self._replacements: list[_Replacement] = []

    def hold(self) -> None:
        self.is_held = True

    def resume(self) -> None:
        self.is_held = False
        self._act.poke()

    def drain(self, node: Node) -> str:
        """A node that can be destroyed is, once it is free; any other is out of use until `restore`."""
        _demand_in_use(node)
        when = "after its run" if node.state is NodeState.BUSY else "now"
        self._act.retire_nodes([node], "order", f"drain {node.name}, as ordered")
        if not self._can_scale:
            return f"out of use {when}, until it is resumed"
        is_short = len(self._staying()) < self._config().min_nodes and not self.is_held
        return f"destroyed {when}" + ("; min_nodes will have another one made" if is_short else "")

    def restore(self, node: Node) -> str:
        """Take a drain back: before the run has ended, or where nothing is destroyed."""
        is_drained = node.state is NodeState.DRAINING
        if not is_drained and not node.is_retiring:
            raise NotPossibleNow(f"it is {node.state}, not drained")
        if is_drained and self._can_scale:
            raise NotPossibleNow("it is being destroyed")
        self._dispatcher.restore(node, self._clock())
        return "in use again once its probe answers 200" if is_drained else "it stays in use"

    def replace(self, node: Node) -> str:
        self._demand_scaling()
        _demand_in_use(node)
        if any(replacement.old is node for replacement in self._replacements):
            raise NotPossibleNow("it is being replaced already")
        self._fleet.troubles.forget()
        most = self._config().max_nodes
        if len(self._dispatcher.nodes) < most:
            [fresh] = self._act.add_nodes(1, "replace", f"replaces {node.name}, as ordered")
            self._replacements.append(_Replacement(node, fresh))
            return f"{fresh.name} is being made; once it is ready {node.name} goes"
        self._act.retire_nodes([node], "replace", f"replace {node.name}, as ordered")
        self._replacements.append(_Replacement(node, None))
        first = "ends its run and goes" if node.state is NodeState.BUSY else "goes"
        return f"it {first}, then another one is made (max_nodes {most} leaves no room to do so before)"

    def reach(self, count: int) -> str:
        """Create or drain, once, so that `count` nodes remain, within `min_nodes` and `max_nodes`."""
        self._demand_scaling()
        config, staying = self._config(), self._staying()
        wished = min(max(count, config.min_nodes), config.max_nodes)
        binds = ""
        if wished != count:
            binds = f"; min_nodes is {wished}" if wished > count else f"; max_nodes is {wished}"
        reason = f"{len(staying)} nodes, {wished} ordered"
        if len(staying) > wished:
            leaving = sorted(staying, key=_least_missed)[: len(staying) - wished]
            busy = sum(node.state is NodeState.BUSY for node in leaving)
            self._act.retire_nodes(leaving, "order", reason)
            return f"{len(leaving)} drained" + (f", {busy} of them after their runs" if busy else "") + binds
        room = config.max_nodes - len(self._dispatcher.nodes)
        missing = wished - len(staying)
        if not missing:
            return f"there are {wished} already{binds}"
        if room <= 0:
            paid = len(self._dispatcher.nodes)
            raise NotPossibleNow(
                f"{paid} nodes exist, some of them draining; max_nodes is {config.max_nodes}"
            )
        self._fleet.troubles.forget()
        made = self._act.add_nodes(min(missing, room), "order", reason)
        short = f"; no room for {missing - room} more until others have gone" if missing > room else ""
        return f"{len(made)} being made{short}{binds}"

    def tend(self) -> None:
        """Take every replacement a step further."""
        self._replacements = [one for one in self._replacements if not self._is_over(one)]

    def _is_over(self, one: _Replacement) -> bool:
        old, fresh = one.old, one.fresh
        if fresh is None:
            if old.state is not NodeState.GONE:
                return False
            if len(self._dispatcher.nodes) < self._config().max_nodes:
                if not self._fleet.can_create:
                    return False
                self._act.add_nodes(1, "replace", f"replaces {old.name}, as ordered")
            return True
        if fresh.state in (NodeState.DRAINING, NodeState.GONE):
            log.warning("%s stays: %s, which was to replace it, has failed", old.name, fresh.name)
            return True
        if old.state in (NodeState.DRAINING, NodeState.GONE) or old.is_retiring:
            return True
        if fresh.ready_at is None:
            return False
        self._act.retire_nodes([old], "replace", f"{fresh.name} replaces {old.name}, as ordered")
        return True

    def _staying(self) -> list[Node]:
        return [
            node
            for node in self._dispatcher.nodes
            if node.state is not NodeState.DRAINING and not node.is_retiring
        ]

    def _demand_scaling(self) -> None:
        if not self._can_scale:
            raise NotPossibleNow(_STATIC)
        if not self._fleet.is_known:
            raise NotPossibleNow("the provider's list has not been read yet")


def _demand_in_use(node: Node) -> None:
    if node.is_retiring or node.state is NodeState.DRAINING:
        raise NotPossibleNow("it is drained already")


def _least_missed(node: Node) -> tuple[int, float, int]:
    """Unready ones first, then those starting, the youngest first, then the longest idle; busy ones last."""
    match node.state:
        case NodeState.UNREADY:
            return 0, node.unready_since or 0.0, node.number
        case NodeState.STARTING:
            return 1, -node.created_at, node.number
        case NodeState.IDLE:
            return 2, node.last_used_at or 0.0, node.number
        case _:
            return 3, node.busy_since, node.number
