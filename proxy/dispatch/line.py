"""The line: what waits, in order.

A ticket is new (number 0), waiting, or out of the line; its number is its order of joining and never changes.
Always: numbers grow from head to tail, and so does `joined_at`, also after a ticket came back to its place.

The line is a doubly linked list whose links live in the tickets: joining, leaving from anywhere and taking
the head cost the same however long it is, and nothing is allocated.
"""

from __future__ import annotations

from collections.abc import Iterator

from mypy_extensions import mypyc_attr


@mypyc_attr(
    allow_interpreted_subclasses=True
)  # also in the compiled build: simulations and tests have their own
class Ticket:
    """A place in the line; what waits is a subclass of it.

    `number`: order of joining from 1, 0 before. `joined_at`: when it first joined, in the caller's time.
    """

    __slots__ = ("_after", "_before", "is_waiting", "joined_at", "number")

    def __init__(self) -> None:
        self.number = 0
        self.joined_at = 0.0
        self.is_waiting = False
        self._before: Ticket | None = None
        self._after: Ticket | None = None


class Line:
    """Tickets in the order of their numbers. `head` is the next to go, None when nothing waits."""

    __slots__ = ("_last_number", "_length", "_tail", "head")

    def __init__(self) -> None:
        self.head: Ticket | None = None
        self._tail: Ticket | None = None
        self._length = 0
        self._last_number = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Ticket]:
        """From head to tail. Take a list of it first where the loop changes the line."""
        ticket = self.head
        while ticket is not None:
            yield ticket
            ticket = ticket._after

    def oldest_wait(self, now: float) -> float:
        """How long the head has waited, over all its attempts; 0 when nothing waits."""
        return 0.0 if self.head is None else now - self.head.joined_at

    def join(self, ticket: Ticket, now: float) -> None:
        """Put a new ticket at the tail. Raises ValueError for one that has joined before."""
        if ticket.number:
            raise ValueError(f"ticket {ticket.number} has joined before: it can only rejoin")
        self._last_number += 1
        ticket.number = self._last_number
        ticket.joined_at = now
        self._insert(ticket, self._tail, None)

    def rejoin(self, ticket: Ticket) -> None:
        """Put a ticket that was taken out back at its place, found from the head: only others that came back,
        at most one for each node, can be before it. Raises ValueError for one that is new or waits."""
        if ticket.is_waiting or not ticket.number:
            raise ValueError(f"ticket {ticket.number} waits or never joined: it cannot rejoin")
        before, after = None, self.head
        while after is not None and after.number < ticket.number:
            before, after = after, after._after
        self._insert(ticket, before, after)

    def leave(self, ticket: Ticket) -> bool:
        """Take a ticket out wherever it stands; False when it does not wait."""
        if not ticket.is_waiting:
            return False
        before, after = ticket._before, ticket._after
        if before is None:
            self.head = after
        else:
            before._after = after
        if after is None:
            self._tail = before
        else:
            after._before = before
        ticket._before = ticket._after = None
        ticket.is_waiting = False
        self._length -= 1
        return True

    def pop(self) -> Ticket:
        """Take the head. Raises IndexError when nothing waits."""
        head = self.head
        if head is None:
            raise IndexError("nothing waits")
        self.leave(head)
        return head

    def _insert(self, ticket: Ticket, before: Ticket | None, after: Ticket | None) -> None:
        ticket._before, ticket._after = before, after
        if before is None:
            self.head = ticket
        else:
            before._after = ticket
        if after is None:
            self._tail = ticket
        else:
            after._before = ticket
        ticket.is_waiting = True
        self._length += 1
