"""What a simulation is fed with: arrivals and service times, and how long nodes take to start.

A trace is CSV, `arrival_s,service_s` with a header line, sorted by arrival, seconds from any origin; the simulator's
clock is whole milliseconds. Everything wrong is told with its line.
"""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random

from proxy.errors import FifoProxyError


class UnusableTrace(FifoProxyError):
    """A trace that cannot be read, is out of order, or that these limits can never serve."""


class UnusableNodeStart(FifoProxyError):
    """A start time that is none of `const:S`, `uniform:A,B`, `lognorm:MEDIAN,SIGMA`, `file:QUANTILES.csv`."""


def read_trace(lines: Iterable[str]) -> Iterator[tuple[int, int]]:
    """(arrival_ms, service_ms) of each line; a service takes at least 1 ms. Raises UnusableTrace."""
    rows = csv.reader(lines)
    head = next(rows, None)
    if head is None or [name.strip() for name in head[:2]] != ["arrival_s", "service_s"]:
        raise UnusableTrace("line 1: expected the header arrival_s,service_s")
    before = -math.inf
    for row in rows:
        if not row:
            continue
        try:
            arrival, service = float(row[0]), float(row[1])
        except (ValueError, IndexError):
            raise UnusableTrace(
                f"line {rows.line_num}: expected two numbers of seconds, not {','.join(row)!r}"
            ) from None
        if not (math.isfinite(arrival) and math.isfinite(service) and arrival >= 0 and service >= 0):
            raise UnusableTrace(f"line {rows.line_num}: expected finite numbers of at least 0")
        if arrival < before:
            raise UnusableTrace(f"line {rows.line_num}: arrival {arrival:g} s comes before {before:g} s")
        before = arrival
        yield round(arrival * 1000), max(1, round(service * 1000))


def node_start(spec: str, seed: int) -> Callable[[], int]:
    """Draws start times in ms. `file:` names a CSV `quantile,seconds` with a header line, quantiles from 0 to 1,
    between which it interpolates. Raises UnusableNodeStart."""
    kind, _, text = spec.partition(":")
    random = Random(seed)
    try:
        if kind == "file":
            return _by_quantiles(_read_quantiles(Path(text)), random)
        numbers = [float(part) for part in text.split(",")]
        if not all(math.isfinite(number) and number >= 0 for number in numbers):
            raise ValueError("expected finite numbers of at least 0")
        if kind == "const":
            (secs,) = numbers
            return lambda: round(secs * 1000)
        low, high = numbers
        if kind == "uniform" and low <= high:
            return lambda: round(random.uniform(low, high) * 1000)
        if kind == "lognorm" and low > 0:
            return lambda: round(random.lognormvariate(math.log(low), high) * 1000)
    except OSError as error:
        raise UnusableNodeStart(f"{spec}: {error.strerror}") from None
    except ValueError:
        pass  # told below, as for a kind that does not exist
    raise UnusableNodeStart(
        f"{spec!r}: expected const:S, uniform:A,B, lognorm:MEDIAN,SIGMA or file:QUANTILES.csv (quantile,seconds)"
    )


def _read_quantiles(path: Path) -> list[tuple[float, float]]:
    with path.open(newline="") as file:
        rows = csv.reader(file)
        next(rows, None)
        pairs = sorted((float(row[0]), float(row[1])) for row in rows if row)
    if len(pairs) < 2 or not (pairs[0][0] >= 0 and pairs[-1][0] <= 1):
        raise ValueError("expected at least two quantiles from 0 to 1")
    return pairs


def _by_quantiles(pairs: list[tuple[float, float]], random: Random) -> Callable[[], int]:
    quantiles = [quantile for quantile, _ in pairs]

    def draw() -> int:
        at = random.random()
        right = min(max(bisect_right(quantiles, at), 1), len(pairs) - 1)
        (q0, s0), (q1, s1) = pairs[right - 1], pairs[right]
        part = min(max((at - q0) / (q1 - q0), 0.0), 1.0) if q1 > q0 else 0.0
        return round((s0 + part * (s1 - s0)) * 1000)

    return draw
