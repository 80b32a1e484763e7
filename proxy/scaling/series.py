"""A simulated run over time, in a bounded number of buckets: what a picture of it shows.

The run itself keeps only instants and lives; everything here follows from them. Always: in each bucket busy + idle +
starting + unready is the mean number of nodes paid for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import accumulate
from math import ceil

from proxy.scaling.figures import percentile
from proxy.scaling.simulate import Life, Run

STATES = ("busy", "idle", "starting", "unready")
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_STEPS_SECS = (
    *(1, 2, 5, 10, 15, 30),
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY for days in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)


@dataclass(frozen=True, slots=True)
class Series:
    """Each list has one value for each `step_secs` of the run, from 0 on. `line_mean`, `line_max`: requests waiting;
    `nodes`: mean number by state; `wait_p50`, `wait_p95`: seconds, of the requests that arrived in it, None without
    any."""

    step_secs: int
    line_mean: list[float]
    line_max: list[int]
    nodes: dict[str, list[float]]
    wait_p50: list[float | None]
    wait_p95: list[float | None]


def series_of(run: Run, service_ms: Sequence[int], *, most: int = 360) -> Series:
    """The run of a trace with these service times, in at most `most` buckets of a round length."""
    step_secs = round_step(run.horizon_ms / 1000 / most)
    buckets = _Buckets(step_secs * 1000, run.horizon_ms)
    waits = [buckets.slice_waits(run, percent) for percent in (50, 95)]
    busy = buckets.mean(
        (start, run.cut_ms.get(place, start + service))
        for place, (start, service) in enumerate(zip(run.start_ms, service_ms, strict=True))
    )
    ready = buckets.mean(_ready_spans(run.nodes))
    return Series(
        step_secs=step_secs,
        line_mean=buckets.mean(
            (start - wait, start) for start, wait in zip(run.start_ms, run.wait_ms, strict=True)
        ),
        line_max=buckets.longest_line(run),
        nodes={
            "busy": busy,
            "idle": [max(0.0, up - working) for up, working in zip(ready, busy, strict=True)],
            "starting": buckets.mean(
                (life.created_ms, life.gone_ms if life.ready_ms is None else life.ready_ms)
                for life in run.nodes
            ),
            "unready": buckets.mean(
                (life.died_ms, life.gone_ms) for life in run.nodes if life.died_ms is not None
            ),
        },
        wait_p50=waits[0],
        wait_p95=waits[1],
    )


def round_step(least_secs: float) -> int:
    """The shortest round number of seconds, minutes, hours or days that is not shorter."""
    return next((step for step in _STEPS_SECS if step >= least_secs), ceil(least_secs / _DAY) * _DAY)


def _ready_spans(lives: Iterable[Life]) -> Iterable[tuple[int, int]]:
    for life in lives:
        if life.ready_ms is not None:
            yield life.ready_ms, life.gone_ms if life.died_ms is None else life.died_ms


class _Buckets:
    def __init__(self, step_ms: int, horizon_ms: int) -> None:
        self._step = step_ms
        self._count = max(1, -(-horizon_ms // step_ms))
        self._widths = [step_ms] * (self._count - 1) + [horizon_ms - (self._count - 1) * step_ms or 1]

    def mean(self, spans: Iterable[tuple[int, int]]) -> list[float]:
        """How many of these spans, from inclusive to exclusive, there are on average in each bucket."""
        step, parts, whole = self._step, [0] * self._count, [0] * (self._count + 1)
        for start, end in spans:
            if end <= start:
                continue
            first, last = start // step, (end - 1) // step
            if first == last:
                parts[first] += end - start
            else:
                parts[first] += (first + 1) * step - start
                parts[last] += end - last * step
                whole[first + 1] += 1
                whole[last] -= 1
        return [
            through + part / width
            for through, part, width in zip(accumulate(whole[:-1]), parts, self._widths, strict=True)
        ]

    def longest_line(self, run: Run) -> list[int]:
        longest, length, bucket = [0] * self._count, 0, 0
        joins = ((start - wait, 1) for start, wait in zip(run.start_ms, run.wait_ms, strict=True) if wait)
        starts = ((start, -1) for start, wait in zip(run.start_ms, run.wait_ms, strict=True) if wait)
        for instant, change in merge(joins, starts):
            # What starts at the very beginning of a bucket does not wait in it.
            while bucket < (instant - (change < 0)) // self._step:
                bucket += 1
                longest[bucket] = length
            length += change
            if change > 0:
                longest[bucket] = max(longest[bucket], length)
        return longest

    def slice_waits(self, run: Run, percent: float) -> list[float | None]:
        by_bucket: list[list[int]] = [[] for _ in range(self._count)]
        for start, wait in zip(run.start_ms, run.wait_ms, strict=True):
            by_bucket[(start - wait) // self._step].append(wait)
        return [percentile(sorted(waits), percent) / 1000 if waits else None for waits in by_bucket]
