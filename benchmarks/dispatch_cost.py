"""What the line costs by itself: joining, leaving at a random place and pairing, with a given number waiting.

    python -m benchmarks.dispatch_cost WAITING

prints the median cost of each in nanoseconds, and how often a ticket started before one that had joined
earlier. The line's length stays within a batch of WAITING; making tickets and choosing who leaves are outside
the clock.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
from time import perf_counter_ns

from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.lease import Lease
from proxy.dispatch.line import Ticket

_BATCH = 20
_BATCHES = 3000


class Cost:
    """A dispatcher with one node, always leased, and the tickets that wait for it."""

    def __init__(self, waiting: int) -> None:
        self.dispatcher = Dispatcher(capacity=waiting * 2, grant=self._granted)
        self.order_violations = 0
        self._last_number = 0
        self._now = 0.0
        self._random = random.Random(4)
        self._waiting: list[Ticket] = []
        self._lease: Lease | None = None
        node = self.dispatcher.add("bench", self._now, url="http://127.0.0.1:1", is_running=True)
        self.dispatcher.ready(node, self._now)
        self.join(waiting + 1)

    def _granted(self, ticket: Ticket, lease: Lease) -> None:
        self.order_violations += ticket.number < self._last_number
        self._last_number = ticket.number
        self._lease = lease

    def join(self, count: int) -> float:
        """Nanoseconds for each, as for the others."""
        tickets = [Ticket() for _ in range(count)]
        self._waiting += tickets
        join, now = self.dispatcher.join, self._now
        started = perf_counter_ns()
        for ticket in tickets:
            join(ticket, now)
        return (perf_counter_ns() - started) / count

    def leave(self, count: int) -> float:
        tickets: list[Ticket] = []
        while len(tickets) < count:
            ticket = self._take_random()
            if ticket.is_waiting:
                tickets.append(ticket)
        leave = self.dispatcher.leave
        started = perf_counter_ns()
        for ticket in tickets:
            leave(ticket)
        return (perf_counter_ns() - started) / count

    def _take_random(self) -> Ticket:
        """In constant time: the last one takes the place of the one taken."""
        at = self._random.randrange(len(self._waiting))
        ticket, self._waiting[at] = self._waiting[at], self._waiting[-1]
        self._waiting.pop()
        return ticket

    def pair(self, count: int) -> float:
        """Each run ends and the head of the line gets the node in the same call."""
        release, now = self.dispatcher.release, self._now
        started = perf_counter_ns()
        for _ in range(count):
            assert self._lease is not None
            release(self._lease, now)
        took = perf_counter_ns() - started
        return took / count

    def tidy(self) -> None:
        """Forgets tickets that started, so that choosing one that waits stays quick."""
        self._waiting = [ticket for ticket in self._waiting if ticket.is_waiting]


def run(waiting: int) -> dict[str, float]:
    cost = Cost(waiting)
    joins: list[float] = []
    leaves: list[float] = []
    pairs: list[float] = []
    for batch in range(_BATCHES):
        joins.append(cost.join(_BATCH))
        leaves.append(cost.leave(_BATCH))
        cost.join(_BATCH)
        pairs.append(cost.pair(_BATCH))
        if batch % 100 == 99:
            cost.tidy()
    return {
        "join_ns": statistics.median(joins),
        "leave_ns": statistics.median(leaves),
        "pair_ns": statistics.median(pairs),
        "order_violations": cost.order_violations,
    }


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]))))
