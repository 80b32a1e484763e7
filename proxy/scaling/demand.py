"""What `target_wait` knows of the demand, learned from what happens in the line and of nothing else.

It watches the dispatcher, in the caller's unit of time, and is the same in the simulator. Always: its memory does not
grow; with no knowledge at all it answers with what is safe to assume; it starts anew after a restart.

- The allowance. `target` is for 19 of 20 requests, but the rules can only foresee a mean. So the mean wait that they
  allow is learned: a request that waited longer than the target lowers it by so much more than another one raises it
  that it rests where the share `_MISSES` waits longer, whatever the traffic (quantile tracking, Robbins and Monro).
- The keep-alive. Each time that a node is used again, or one is asked for where one was stopped before, tells how long
  it was not needed. Each candidate is charged what it would have cost: the time idled, and for a node stopped too soon
  its start: paid, and waited for, which is the dearer the longer a start is than the target. The cheapest is used.

The constants were chosen on production traces; `python -m benchmarks.scaling` prints what they reach on any.
"""

from __future__ import annotations

from collections import deque
from math import exp, sqrt

_MISSES = (
    0.035  # the share of requests that may wait longer than the target: 1 in 20, less some distance from it
)
_STEP = 0.01  # of the logarithm of the allowance, for one request
_LEAST, _MOST = -2.0, 0.5  # of that logarithm: an allowance of 0.14 to 1.65 times the target
_RECENT_RUNS = 200
_RECENT_STARTS = 8
_RECENT_GAPS = 200
_UNKNOWN_START_SECS = 60.0
_WINDOW_SECS, _PIECES = 120.0, 24  # of arrivals
_LEAST_WINDOW_SECS = 30.0  # the first few arrivals are no rate
_KEEP_STARTS = (1.0, 1.5, 2.0, 3.0, 4.5, 6.0)  # candidates for the keep-alive, in starts of a node
_FIRST_KEEP = 2.0
_ENOUGH_GAPS = 20
_MOST_DEAR = 8.0  # a wait for a start, in starts


class Demand:
    """`target_wait` and every time in and out are in units of `1 / ticks_per_sec` seconds."""

    def __init__(self, target_wait: float, ticks_per_sec: int = 1) -> None:
        self.target = target_wait
        self._ticks = ticks_per_sec
        self._bias = 0.0
        self._is_limited = False
        self._mean_run: float | None = None
        self._runs = 0
        self._mean_start: float | None = None
        self._starts = 0
        self._arrivals: deque[tuple[int, int]] = deque(maxlen=_PIECES)  # piece of time, how many
        self._began: float | None = None
        self._costs = [0.0] * len(_KEEP_STARTS)
        self._gaps = 0
        self._stopped: deque[float] = deque(maxlen=64)  # when stopped nodes were last used, the latest last

    # what happens

    def joined(self, now: float) -> None:
        piece = int(now * _PIECES / (_WINDOW_SECS * self._ticks))
        if self._began is None:
            self._began = now
        if self._arrivals and self._arrivals[-1][0] == piece:
            self._arrivals[-1] = (piece, self._arrivals[-1][1] + 1)
        else:
            self._arrivals.append((piece, 1))

    def granted(self, wait: float, idle: float) -> None:
        """A request starts after `wait`, on a node that was idle for so long."""
        if wait <= self.target:
            self._bias = min(self._bias + _STEP * _MISSES, _MOST)
        elif not self._is_limited:
            self._bias = max(self._bias - _STEP * (1 - _MISSES), _LEAST)
        self._learn_gap(idle)

    def ended(self, run: float) -> None:
        self._runs = min(self._runs + 1, _RECENT_RUNS)
        mean = self._mean_run or 0.0
        self._mean_run = mean + (run - mean) / self._runs

    def started(self, start: float) -> None:
        """A node became ready so long after it was asked for."""
        self._starts = min(self._starts + 1, _RECENT_STARTS)
        mean = self._mean_start or 0.0
        self._mean_start = mean + (start - mean) / self._starts

    def stopped(self, last_used_at: float) -> None:
        """A node was stopped that was used last then."""
        self._stopped.append(last_used_at)

    def asked(self, now: float, count: int) -> None:
        """So many nodes were asked for, because the line needs them."""
        for _ in range(min(count, len(self._stopped))):
            self._learn_gap(now - self._stopped.pop())

    def limited(self, is_limited: bool) -> None:
        """Whether there are as many nodes as may be: longer waits do not tell then that more are needed."""
        self._is_limited = is_limited

    # what is known

    @property
    def run(self) -> float:
        """The mean of recent runs. Before the first one has ended: the target, so that two requests want a node."""
        return max(self._mean_run if self._mean_run is not None else self.target, 1e-9)

    @property
    def start(self) -> float:
        """How long nodes take to start: the mean of the last ones."""
        return self._mean_start if self._mean_start is not None else _UNKNOWN_START_SECS * self._ticks

    @property
    def allowance(self) -> float:
        """The expected wait to allow."""
        return self.target * exp(self._bias)

    def rate(self, now: float) -> float:
        """Arrivals in a unit of time that are all but certain: fewer than were counted, by one standard error."""
        if self._began is None:
            return 0.0
        window = _WINDOW_SECS * self._ticks
        first = int(now * _PIECES / window) - _PIECES + 1
        count = sum(arrived for piece, arrived in self._arrivals if piece >= first)
        watched = min(max(now - self._began, _LEAST_WINDOW_SECS * self._ticks), window)
        return max(0.0, count - sqrt(count)) / watched

    @property
    def keep_alive(self) -> float:
        """How long an idle node is worth its price."""
        starts = _FIRST_KEEP
        if self._gaps >= _ENOUGH_GAPS:
            starts = _KEEP_STARTS[self._costs.index(min(self._costs))]
        return starts * self.start

    def _learn_gap(self, gap: float) -> None:
        start = self.start
        if gap <= _KEEP_STARTS[0] * start:
            return  # the same to all of them
        self._gaps += 1
        decay = 1 - 1 / min(self._gaps, _RECENT_GAPS)
        price = start * (1 + min(start / self.target, _MOST_DEAR)) if self.target else start * _MOST_DEAR
        for index, starts in enumerate(_KEEP_STARTS):
            keep = starts * start
            cost = gap if gap <= keep else keep + price
            self._costs[index] = self._costs[index] * decay + cost * (1 - decay)
