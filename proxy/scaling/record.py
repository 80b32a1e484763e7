"""What the fleet knows of one node beyond the dispatcher, and concludes from it. Pure: told the time."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from proxy.config import Config
from proxy.dispatch.nodes import Node, NodeState

LIST_LAG_SECS = 60.0
"""How long a cloud's list may still tell of the time before a call. A create that we gave up on can sit in
front of the cloud until its gateway gives up too (60 s is the usual limit of nginx and of load balancers) and
be carried out then; lists themselves trail by some seconds. Until then a missing node may yet come, and a
destroyed one may still be listed."""

_ABSENCES = 2  # lists in a row that must lack a node: one may be a page lost or an answer cut short


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a node should be replaced. `cause` is a metric's label, `reason` a sentence with its numbers."""

    node: Node
    cause: str
    reason: str


@dataclass(slots=True, eq=False)
class Record:
    """`since`: when we asked for the node or found it, where its start deadline begins (an adopted one may be
    hours old). `proof_from`: lists begun from then on can prove it absent. `call`: its create or destroy."""

    node: Node
    since: float
    is_adopted: bool
    proof_from: float = math.inf
    absences: int = 0
    was_ready: bool = False
    call: asyncio.Task[None] | None = None

    def end_create(self, now: float) -> None:
        """However the call ended: a list begun before now, or soon after, may lack the node that was made."""
        self.call = None
        if self.proof_from == math.inf:
            self.proof_from = now + LIST_LAG_SECS

    def see(self, began: float) -> None:
        """The list begun at `began` has the node."""
        self.proof_from = began
        self.absences = 0

    def miss(self, began: float) -> bool:
        """The list begun at `began` lacks the node; whether that makes it certain that there is none."""
        self.absences += began >= self.proof_from
        return self.absences >= _ABSENCES

    def find_fault(self, config: Config, now: float) -> Fault | None:
        """What is wrong with a node that is not busy, if it is to be replaced for it."""
        node = self.node
        if node.must_replace:
            return Fault(node, "replace", f"{node.name}: {node.reason}")
        if node.state is NodeState.STARTING:
            age, limit = now - self.since, config.node_start_timeout_secs
            if age > limit:
                return Fault(
                    node, "start_timeout", f"{node.name} was not ready after {age:.1f} s > {limit:g} s"
                )
        if node.state is NodeState.UNREADY and node.unready_since is not None:
            age, limit = now - node.unready_since, config.unready_destroy_secs
            if age > limit:
                return Fault(node, "unready", f"{node.name} was unready for {age:.1f} s > {limit:g} s")
        return None
