"""What an operator can order, who ordered what, and what came of it.

Always: every order, refused ones too, is logged and in the `journal`, which is bounded; a hold is known by who
ordered it and when. Nothing here decides how an order is carried out: the dispatcher and the scaler do.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from proxy.clock import Clock
from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.nodes import Node
from proxy.errors import NotPossibleNow, OrderRefused, UnknownTarget

log = logging.getLogger(__name__)

_KEPT = 200


class NodeOrders(Protocol):
    """What the scaler can be told; each answers with a sentence, or raises `OrderRefused`."""

    def drain(self, node: Node) -> str: ...
    def replace(self, node: Node) -> str: ...
    def restore(self, node: Node) -> str: ...
    def reach(self, count: int) -> str: ...
    def hold(self) -> None: ...
    def resume(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Who:
    """`name`: as given, "" where none was; `client`: the address that the order came from."""

    name: str
    client: str


@dataclass(frozen=True, slots=True)
class Action:
    """One order. `at`: monotonic seconds; `target`: a node's name, a request's id, a number, or ""."""

    at: float
    who: Who
    action: str
    target: str
    result: str


@dataclass(frozen=True, slots=True)
class Hold:
    at: float
    who: Who


class Actions:
    """`remove_request(id)` takes a waiting request out and answers it; it raises `OrderRefused`.

    `journal`: the last orders, newest first; `count`: of all there were.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        nodes: NodeOrders,
        remove_request: Callable[[str], str],
        clock: Clock,
    ) -> None:
        self.journal: deque[Action] = deque(maxlen=_KEPT)
        self.count = 0
        self.scaling_hold: Hold | None = None
        self.dispatch_hold: Hold | None = None
        self._dispatcher = dispatcher
        self._nodes = nodes
        self._remove_request = remove_request
        self._clock = clock

    def drain_node(self, who: Who, name: str) -> Action:
        return self._carry_out(who, "drain_node", name, lambda: self._nodes.drain(self._node(name)))

    def replace_node(self, who: Who, name: str) -> Action:
        return self._carry_out(who, "replace_node", name, lambda: self._nodes.replace(self._node(name)))

    def resume_node(self, who: Who, name: str) -> Action:
        """Take a drain back, where the node is still there."""
        return self._carry_out(who, "resume_node", name, lambda: self._nodes.restore(self._node(name)))

    def set_nodes(self, who: Who, count: int) -> Action:
        return self._carry_out(who, "set_nodes", str(count), lambda: self._nodes.reach(count))

    def remove_request(self, who: Who, request_id: str) -> Action:
        return self._carry_out(who, "remove_request", request_id, lambda: self._remove_request(request_id))

    def hold_scaling(self, who: Who) -> Action:
        """The scaler does nothing by itself, the floor included; what an operator orders is carried out."""

        def work() -> str:
            _demand_free(self.scaling_hold)
            self.scaling_hold = Hold(self._clock.now(), who)
            self._nodes.hold()
            return "nothing is created or destroyed until scaling is resumed"

        return self._carry_out(who, "hold_scaling", "", work)

    def resume_scaling(self, who: Who) -> Action:
        def work() -> str:
            _demand_held(self.scaling_hold)
            self.scaling_hold = None
            self._nodes.resume()
            return "the scaler decides again"

        return self._carry_out(who, "resume_scaling", "", work)

    def hold_dispatch(self, who: Who) -> Action:
        """Nothing is started; what runs goes on, what waits keeps its place and its time limit."""

        def work() -> str:
            _demand_free(self.dispatch_hold)
            self.dispatch_hold = Hold(self._clock.now(), who)
            self._dispatcher.hold()
            return f"nothing is started until dispatch is resumed; {self._dispatcher.running} running go on"

        return self._carry_out(who, "hold_dispatch", "", work)

    def resume_dispatch(self, who: Who) -> Action:
        def work() -> str:
            _demand_held(self.dispatch_hold)
            self.dispatch_hold = None
            before = self._dispatcher.running
            self._dispatcher.resume(self._clock.now())
            return f"{self._dispatcher.running - before} started, {len(self._dispatcher.line)} wait"

        return self._carry_out(who, "resume_dispatch", "", work)

    def _node(self, name: str) -> Node:
        for node in self._dispatcher.nodes:
            if name in (node.name, node.id):
                return node
        raise UnknownTarget(f"there is no node {name}")

    def _carry_out(self, who: Who, action: str, target: str, work: Callable[[], str]) -> Action:
        try:
            result = work()
        except OrderRefused as error:
            self._note(who, action, target, f"refused: {error}")
            raise
        return self._note(who, action, target, result)

    def _note(self, who: Who, action: str, target: str, result: str) -> Action:
        noted = Action(self._clock.now(), who, action, target, result)
        self.journal.appendleft(noted)
        self.count += 1
        fields = {"action": action, "target": target, "by": who.name, "client": who.client}
        log.info(
            "operator: %s: %s", " ".join(filter(None, (action, target))), result, extra={"fields": fields}
        )
        return noted


def _demand_free(hold: Hold | None) -> None:
    if hold is not None:
        raise NotPossibleNow(f"held already, by {hold.who.name or hold.who.client}")


def _demand_held(hold: Hold | None) -> None:
    if hold is None:
        raise NotPossibleNow("not held")
