"""Files that a simulation is fed with: traces, or the proxy's own request log as it is.

What a file is tells its first line: the header `arrival_s,service_s` of a trace; an object, the request log as JSON
lines; a header with `arrival` and `run_secs`, the request log as CSV. Of the log only these two are read. Its lines
are in order of end and its files may be rotated, so they are sorted by arrival. Everything wrong is told with its
file and line.
"""

from __future__ import annotations

import csv
import json
import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import TextIO

from proxy.scaling.traces import UnusableTrace, read_trace

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LOG_COLUMNS = ("arrival", "run_secs")


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests by arrival, in ms from the origin: 16 bytes each. `left_out`: lines of a log without a run."""

    arrival_ms: array[int]
    service_ms: array[int]
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.arrival_ms)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.arrival_ms, self.service_ms, strict=True)

    def part(self, first: int, end: int) -> Trace:
        """Requests `first` to before `end`, from the first one's arrival on."""
        origin = self.arrival_ms[first] if first < end else 0
        arrivals = array("q", (arrival - origin for arrival in self.arrival_ms[first:end]))
        return Trace(arrivals, self.service_ms[first:end])


def load_trace(paths: Sequence[Path]) -> Trace:
    """All requests of these files, which must be of one kind; empty ones may be among them. Raises
    UnusableTrace."""
    arrivals, services = array("q"), array("q")
    left_out = 0
    kinds: dict[bool, Path] = {}  # is it a log, and the first such file
    for path in paths:
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                first = file.readline()
                if not first and len(paths) > 1:
                    continue
                is_log = first.lstrip().startswith("{") or _is_log_header(first)
                kinds.setdefault(is_log, path)
                rows = _read_log(first, file) if is_log else read_trace(chain([first], file))
                for arrival, service in rows:
                    if service is None:
                        left_out += 1
                    else:
                        arrivals.append(arrival)
                        services.append(service)
        except OSError as error:
            raise UnusableTrace(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise UnusableTrace(f"{path}: byte {error.start + 1} is not UTF-8") from None
        except UnusableTrace as error:
            raise UnusableTrace(f"{path}: {error}") from None
    if len(kinds) > 1:
        raise UnusableTrace(f"{kinds[True]} is a request log, {kinds[False]} is none: give files of one kind")
    if not arrivals:
        raise UnusableTrace(f"{', '.join(map(str, paths))}: no request that ran")
    if len(paths) > 1 or True in kinds:
        arrivals, services = _sort(arrivals, services)
    if True in kinds:  # microseconds since 1970
        origin = arrivals[0]
        arrivals = array("q", (round((arrival - origin) / 1000) for arrival in arrivals))
    return Trace(arrivals, services, left_out)


def _sort(arrivals: array[int], services: array[int]) -> tuple[array[int], array[int]]:
    order = sorted(range(len(arrivals)), key=arrivals.__getitem__)
    return array("q", map(arrivals.__getitem__, order)), array("q", map(services.__getitem__, order))


def _is_log_header(line: str) -> bool:
    names = next(csv.reader([line]), [])
    return all(name in names for name in _LOG_COLUMNS)


def _read_log(first: str, file: TextIO) -> Iterator[tuple[int, int | None]]:
    """(arrival in microseconds since 1970, service in ms) of each line; no service where nothing ran."""
    rows = _json_rows(chain([first], file)) if first.lstrip().startswith("{") else _csv_rows(first, file)
    for number, arrival, run in rows:
        try:
            if not isinstance(arrival, str):
                raise ValueError
            at = datetime.fromisoformat(arrival)
            if at.tzinfo is None:
                raise ValueError
        except ValueError:
            raise UnusableTrace(f"line {number}: expected arrival as RFC 3339, not {arrival!r}") from None
        if run is None or run == "":
            yield (at - _EPOCH) // _MICROSECOND, None
            continue
        try:
            if isinstance(run, bool) or not isinstance(run, int | float | str):
                raise ValueError
            secs = float(run)
            if not math.isfinite(secs) or secs < 0:
                raise ValueError
        except ValueError:
            raise UnusableTrace(
                f"line {number}: expected run_secs as a finite number of at least 0 or nothing, not {run!r}"
            ) from None
        yield (at - _EPOCH) // _MICROSECOND, max(1, round(secs * 1000))


def _json_rows(lines: Iterator[str]) -> Iterator[tuple[int, object, object]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UnusableTrace(f"line {number}: not JSON ({error})") from None
        if not isinstance(row, dict) or not all(name in row for name in _LOG_COLUMNS):
            raise UnusableTrace(f"line {number}: expected an object with {' and '.join(_LOG_COLUMNS)}")
        yield number, row["arrival"], row["run_secs"]


def _csv_rows(header: str, lines: TextIO) -> Iterator[tuple[int, object, object]]:
    names = next(csv.reader([header]))
    at, run = (names.index(name) for name in _LOG_COLUMNS)
    rows = csv.reader(lines)
    for row in rows:
        if not row:
            continue
        if len(row) != len(names):
            raise UnusableTrace(
                f"line {rows.line_num + 1}: expected {len(names)} columns, as in the header, not {len(row)}"
            )
        yield rows.line_num + 1, row[at], row[run]
