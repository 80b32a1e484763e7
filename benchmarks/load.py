"""wrk's handle: closed-loop load of keep-alive connections from one thread."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import BenchmarkError

_SCRIPT = Path(__file__).with_name("report.lua")


@dataclass(frozen=True, slots=True)
class Load:
    """One run of wrk; latencies in microseconds, from sending a request to its whole response."""

    requests: int
    duration_us: int
    bytes: int
    p50_us: float
    p99_us: float
    socket_errors: int
    status_errors: int

    @property
    def requests_per_sec(self) -> float:
        return self.requests / (self.duration_us / 1e6)

    @property
    def errors(self) -> int:
        return self.socket_errors + self.status_errors


def is_wrk_installed() -> bool:
    return shutil.which("wrk") is not None


def run_wrk(url: str, *, connections: int, seconds: float, cpus: str) -> Load:
    """Loads `url` for whole `seconds` (at least one). Raises BenchmarkError when wrk fails or nothing was
    served, twice: the first burst of connections may find a backlog full, and SYNs are sent again after a second."""
    options = [f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "60s", "-s", str(_SCRIPT)]
    argv = ["taskset", "-c", cpus, "wrk", "-t1", *options, url]
    for _ in range(2):
        ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=seconds + 120)
        if ended.returncode:
            raise BenchmarkError(f"wrk failed: {ended.stderr.strip() or ended.stdout.strip()}")
        load = Load(**json.loads(ended.stdout.splitlines()[-1]))
        if load.requests:
            return load
    raise BenchmarkError(f"nothing was served at {url}: {load}")
