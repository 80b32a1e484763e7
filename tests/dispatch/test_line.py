"""The line: order, leaving from anywhere, coming back to one's place."""

from __future__ import annotations

import pytest

from proxy.dispatch.line import Line, Ticket


def joined(line: Line, count: int) -> list[Ticket]:
    tickets = [Ticket() for _ in range(count)]
    for ticket in tickets:
        line.join(ticket, now=float(len(line)))
    return tickets


def numbers(line: Line) -> list[int]:
    return [ticket.number for ticket in line]


def test_an_empty_line_has_no_head_and_no_wait() -> None:
    line = Line()
    assert (len(line), line.head, line.oldest_wait(5.0)) == (0, None, 0.0)
    with pytest.raises(IndexError):
        line.pop()


def test_tickets_are_numbered_as_they_join_and_go_in_that_order() -> None:
    line = Line()
    a, b, c = joined(line, 3)
    assert numbers(line) == [1, 2, 3]
    assert [line.pop(), line.pop(), line.pop()] == [a, b, c]
    assert len(line) == 0
    assert line.head is None


@pytest.mark.parametrize(("leaver", "rest"), [(0, [2, 3]), (1, [1, 3]), (2, [1, 2])])
def test_a_ticket_leaves_from_anywhere_once(leaver: int, rest: list[int]) -> None:
    line = Line()
    ticket = joined(line, 3)[leaver]
    assert line.leave(ticket)
    assert not line.leave(ticket)
    assert numbers(line) == rest
    joined(line, 1)
    assert numbers(line) == [*rest, 4]


def test_tickets_that_come_back_stand_at_their_places_whatever_the_order() -> None:
    line = Line()
    a, b, c, _ = joined(line, 4)
    for _ in range(3):
        line.pop()
    for ticket in (b, c, a):
        line.rejoin(ticket)
    assert numbers(line) == [1, 2, 3, 4]


def test_one_comes_back_to_an_empty_line() -> None:
    line = Line()
    (ticket,) = joined(line, 1)
    line.rejoin(line.pop())
    assert line.head is ticket
    assert len(line) == 1


def test_the_oldest_wait_counts_from_the_first_join() -> None:
    line = Line()
    joined(line, 2)
    ticket = line.pop()
    assert line.oldest_wait(10.0) == 9.0
    line.rejoin(ticket)
    assert line.oldest_wait(10.0) == 10.0


def test_a_ticket_joins_once_and_rejoins_only_when_it_was_taken_out() -> None:
    line = Line()
    (ticket,) = joined(line, 1)
    with pytest.raises(ValueError, match="has joined before"):
        line.join(ticket, 1.0)
    with pytest.raises(ValueError, match="cannot rejoin"):
        line.rejoin(ticket)
    with pytest.raises(ValueError, match="cannot rejoin"):
        line.rejoin(Ticket())
