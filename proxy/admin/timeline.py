"""What each node was, step by step: one letter a step, so that an hour of a node is 720 bytes.

Always: a node's letters begin with the step in which it was first seen and have no gap; no more than `kept` letters
of a node, and no more than `MOST_NODES` nodes, are kept; those gone for longest are forgotten first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from proxy.dispatch.nodes import Node, NodeState

MOST_NODES = 200
_CODES = {state: ord(state[0]) for state in NodeState}
_UNREADY = _CODES[NodeState.UNREADY]


@dataclass(slots=True)
class Band:
    """A node's states. `first_step`: the step that `states[0]` tells of; `now`: what the current step has so far."""

    name: str
    first_step: int
    states: bytearray = field(default_factory=bytearray)
    now: int = 0

    @property
    def end_step(self) -> int:
        """The step after its last one."""
        return self.first_step + len(self.states)


class Timeline:
    """`look` as often as you like, `end_step` when a step is over. `bands`: by node number, oldest first."""

    def __init__(self, kept: int) -> None:
        self.bands: dict[int, Band] = {}
        self._kept = kept
        self._alive: set[int] = set()

    def look(self, nodes: Iterable[Node], step: int) -> None:
        """A node is shown as unready in a step if it was so at any look: what is short and bad must not be missed.
        Else the last look counts, so that over many steps a node is shown busy for the share that it was."""
        seen = list(nodes)
        self._alive = {node.number for node in seen}
        for node in seen:
            band = self.bands.get(node.number)
            if band is None:
                if not self._has_room():
                    continue
                band = self.bands[node.number] = Band(node.name, step)
            if band.now != _UNREADY:
                band.now = _CODES[node.state]

    def end_step(self, step: int) -> None:
        """Steps up to and with `step` are over: write them down, those too in which nobody could look."""
        for number, band in list(self.bands.items()):
            if number in self._alive:
                band.states.extend([band.now] * (step + 1 - band.end_step))
                over = len(band.states) - self._kept
                if over > 0:
                    del band.states[:over]
                    band.first_step += over
                band.now = 0
            elif band.end_step + self._kept <= step:
                del self.bands[number]

    def _has_room(self) -> bool:
        """Nodes that are gone make room, those there are do not."""
        if len(self.bands) < MOST_NODES:
            return True
        gone = [number for number in self.bands if number not in self._alive]
        if gone:
            del self.bands[min(gone, key=lambda number: self.bands[number].end_step)]
        return bool(gone)
