"""The node program's handle: start it, reset it, read what it measured."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.process import Process


@dataclass(frozen=True, slots=True)
class Measured:
    """What the nodes saw since the last reset (see benchmarks.node); gaps are None where there were none."""

    gaps: int
    gap_p50_us: float | None
    gap_p99_us: float | None
    gap_mean_us: float | None
    gap_histogram_us: dict[str, int]
    busy_secs: float
    work_secs: float
    requests: int
    probes: int
    bytes_in: int
    violations: int
    order_violations: int
    aborted: int
    bad_requests: int


@dataclass(frozen=True, slots=True)
class Nodes:
    """Running nodes, all in one process."""

    ports: tuple[int, ...]
    control_port: int
    process: Process

    def reset(self) -> None:
        self._get("/reset")

    def read(self) -> Measured:
        return Measured(**self._get("/"))

    def _get(self, path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.control_port, timeout=30)
        try:
            connection.request("GET", path)
            return json.load(connection.getresponse())
        finally:
            connection.close()


@contextmanager
def start_nodes(count: int, *, cpus: str, log: Path) -> Iterator[Nodes]:
    argv = [sys.executable, "-m", "benchmarks.node", str(count)]
    with Process(argv, cpus=cpus, log=log, is_talking=True) as process:
        where = json.loads(process.read_line())
        yield Nodes(tuple(where["ports"]), where["control"], process)
