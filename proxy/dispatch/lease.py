"""The right to use a node for one ticket, and who is told of what happens to such.

Always: a lease is given once, and returned once.
"""

from __future__ import annotations

from typing import Protocol

from proxy.dispatch.line import Ticket
from proxy.dispatch.nodes import Node
from proxy.errors import FifoProxyError


class Watcher(Protocol):
    """Who learns from what happens here, in the dispatcher's unit of time."""

    def joined(self, now: float) -> None: ...
    def granted(self, wait: float, idle: float) -> None: ...
    def ended(self, run: float) -> None: ...


class LeaseReturned(FifoProxyError):
    """A lease was returned a second time."""


class Lease:
    """The right to use a node for one ticket, given once and returned once."""

    __slots__ = ("granted_at", "is_returned", "node", "ticket")

    def __init__(self, node: Node, ticket: Ticket, granted_at: float) -> None:
        self.node = node
        self.ticket = ticket
        self.granted_at = granted_at
        self.is_returned = False
