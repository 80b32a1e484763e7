"""The last hour in steps of 5 seconds and the last day in steps of 2 minutes, in memory, as `/api/history` tells it.

Pure: `look` is told the time, about once a second, and reads plain numbers. Always: each series has at most
`STEPS_KEPT` steps and its time line `MOST_NODES` nodes, so memory is bounded (1.7 MB measured after a day of load
with 20 nodes, one replaced each minute); a step ends at the first look past its length, so one in which the event
loop stood still is longer and says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any

from proxy.admin.timeline import Timeline
from proxy.clock import Clock
from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.nodes import NodeState
from proxy.stats import Stats

FINE_SECS, COARSE_SECS = 5.0, 120.0
STEPS_KEPT = 720
_STATES = tuple(state for state in NodeState if state is not NodeState.GONE)


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts since the start, as they were at one look. `waits`, `runs`: of the histograms, by bucket."""

    joined: int
    served: int
    left: int
    refused: int
    waits: tuple[int, ...]
    runs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """`end`: monotonic seconds. Largest of the step: `length`, `oldest_wait_secs`, `running`; at its end: `nodes`, by
    state; the others are of the step. `paid_secs` and `busy_secs`: of all nodes together."""

    end: float
    secs: float
    length: int
    oldest_wait_secs: float
    running: int
    nodes: tuple[int, ...]
    paid_secs: float
    busy_secs: float
    counts: Totals


@dataclass(slots=True)
class _Open:
    """The step that is not over yet. It ends at the first look from `due` on."""

    number: int
    began: float
    due: float
    totals: Totals
    length: int = 0
    oldest_wait_secs: float = 0.0
    running: int = 0
    paid_secs: float = 0.0
    busy_secs: float = 0.0


class Series:
    """Steps of one length, and the nodes' time line in the same steps."""

    def __init__(self, step_secs: float, totals: Totals, now: float) -> None:
        self.step_secs = step_secs
        self.steps: deque[Step] = deque(maxlen=STEPS_KEPT)
        self.timeline = Timeline(STEPS_KEPT)
        self._origin = self._looked_at = now
        self._open = self._begin(totals, now)

    def look(self, dispatcher: Dispatcher, totals: Totals, now: float) -> None:
        line, nodes, step = dispatcher.line, dispatcher.nodes, self._open
        elapsed, self._looked_at = now - self._looked_at, now
        step.length = max(step.length, len(line))
        step.oldest_wait_secs = max(step.oldest_wait_secs, line.oldest_wait(now))
        step.running = max(step.running, dispatcher.running)
        step.paid_secs += elapsed * len(nodes)
        step.busy_secs += elapsed * nodes.count(NodeState.BUSY)
        self.timeline.look(nodes, step.number)
        if now < step.due:
            return
        self.steps.append(
            Step(
                end=now,
                secs=now - step.began,
                length=step.length,
                oldest_wait_secs=step.oldest_wait_secs,
                running=step.running,
                nodes=tuple(nodes.count(state) for state in _STATES),
                paid_secs=step.paid_secs,
                busy_secs=step.busy_secs,
                counts=_since(totals, step.totals),
            )
        )
        self._open = self._begin(totals, now)
        self.timeline.end_step(self._open.number - 1)

    def _begin(self, totals: Totals, now: float) -> _Open:
        """Steps are due at whole multiples of their length, however late a look comes."""
        number = int((now - self._origin) / self.step_secs + 1e-6)
        return _Open(number, now, self._origin + (number + 1) * self.step_secs, totals)


class History:
    """Reads `dispatcher` and `stats` at each `look`, and never changes them. `now`: monotonic seconds."""

    def __init__(self, dispatcher: Dispatcher, stats: Stats, now: float) -> None:
        self.origin = now
        self._dispatcher = dispatcher
        self._stats = stats
        self.bounds = stats.queue_wait.bounds
        self.series = [Series(secs, self._read(), now) for secs in (FINE_SECS, COARSE_SECS)]

    def look(self, now: float) -> None:
        totals = self._read()
        for series in self.series:
            series.look(self._dispatcher, totals, now)

    def _read(self) -> Totals:
        dispatcher, stats = self._dispatcher, self._stats
        return Totals(
            joined=dispatcher.joined,
            served=dispatcher.served,
            left=dispatcher.left,
            refused=dispatcher.refused,
            waits=tuple(stats.queue_wait.counts),
            runs=tuple(stats.node_run.counts),
        )


def history_json(
    history: History, clock: Clock, *, since_secs: float = 0.0, is_coarse: bool = False
) -> dict[str, Any]:
    """The JSON of `/api/history`: what ended later than `since_secs` after `origin`; below 0: before now.

    Steps are columns of equal length. `nodes`: one letter a step, the first of the state's name; the n-th step begins
    n x `step_secs` after `origin`. `waits` and `runs`: how many fell in each of the `bounds` (seconds; the last is
    without bound), trailing zeros left out.
    """
    series = history.series[is_coarse]
    now = clock.now()
    since = (history.origin if since_secs >= 0 else now) + since_secs
    steps = list(dropwhile(lambda step: step.end <= since + 1e-3, series.steps))
    first = max(0, int((since - history.origin) // series.step_secs))
    bands = series.timeline.bands.items()
    return {
        "origin": clock.utc(history.origin),
        "now_secs": round(now - history.origin, 3),
        "step_secs": series.step_secs,
        "bounds": history.bounds,
        "steps": {
            "end_secs": [round(step.end - history.origin, 3) for step in steps],
            "secs": [round(step.secs, 3) for step in steps],
            "length": [step.length for step in steps],
            "oldest_wait_secs": [round(step.oldest_wait_secs, 3) for step in steps],
            "running": [step.running for step in steps],
            **{str(state): [step.nodes[at] for step in steps] for at, state in enumerate(_STATES)},
            "paid_secs": [round(step.paid_secs, 3) for step in steps],
            "busy_secs": [round(step.busy_secs, 3) for step in steps],
            "joined": [step.counts.joined for step in steps],
            "served": [step.counts.served for step in steps],
            "left": [step.counts.left for step in steps],
            "refused": [step.counts.refused for step in steps],
            "waits": [step.counts.waits for step in steps],
            "runs": [step.counts.runs for step in steps],
        },
        "nodes": [
            {
                "number": number,
                "name": band.name,
                "first_step": max(band.first_step, first),
                "states": band.states[max(0, first - band.first_step) :].decode(),
            }
            for number, band in bands
            if band.states and band.end_step > first
        ],
    }


def _since(now: Totals, before: Totals) -> Totals:
    return Totals(
        joined=now.joined - before.joined,
        served=now.served - before.served,
        left=now.left - before.left,
        refused=now.refused - before.refused,
        waits=_counts(now.waits, before.waits),
        runs=_counts(now.runs, before.runs),
    )


def _counts(now: Sequence[int], before: Sequence[int]) -> tuple[int, ...]:
    counts = [after - earlier for after, earlier in zip(now, before, strict=True)]
    while counts and not counts[-1]:
        counts.pop()
    return tuple(counts)
