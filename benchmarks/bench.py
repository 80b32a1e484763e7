"""What a scenario measures with: the cores, the places, and how to start things. One `Bench` lasts the whole
run."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.load import Load, run_wrk
from benchmarks.nodes import Nodes, start_nodes
from benchmarks.process import Process
from benchmarks.targets import Proxy, Target


@dataclass(frozen=True, slots=True)
class Cores:
    """taskset lists: one core for the proxy under test, all others for nodes and load."""

    proxy: str
    load: str
    load_numbers: frozenset[int]

    @classmethod
    def choose(cls) -> Cores:
        usable = sorted(os.sched_getaffinity(0))
        if len(usable) < 2:
            raise SystemExit("the benchmark needs two cores: one for the proxy, one for nodes and load")
        return cls(str(usable[-1]), ",".join(map(str, usable[:-1])), frozenset(usable[:-1]))


@dataclass(slots=True)
class Bench:
    cores: Cores
    directory: Path
    is_quick: bool
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def secs(self, full: float) -> float:
        """How long to load: `full` seconds, or one in a quick run."""
        return 1.0 if self.is_quick else full

    def nodes(self, count: int) -> AbstractContextManager[Nodes]:
        return start_nodes(count, cpus=self.cores.load, log=self._path("nodes.log"))

    def proxy(self, target: Target, nodes: Nodes) -> AbstractContextManager[Proxy]:
        return target.start(nodes.ports, cpus=self.cores.proxy, directory=self._path(target.name))

    def wrk(self, url: str, *, connections: int, seconds: float) -> Load:
        return run_wrk(url, connections=connections, seconds=seconds, cpus=self.cores.load)

    @contextmanager
    def program(self, module: str, *arguments: object, on_proxy_core: bool = False) -> Iterator[Process]:
        """One of the benchmark's own programs, to talk to by lines."""
        argv = [sys.executable, "-m", module, *map(str, arguments)]
        cpus = self.cores.proxy if on_proxy_core else self.cores.load
        with Process(argv, cpus=cpus, log=self._path("program.log"), is_talking=True) as process:
            yield process

    def run(self, module: str, *arguments: object, on_proxy_core: bool = False) -> Any:
        """Runs one of the benchmark's own programs to its end: what it printed, parsed."""
        with self.program(module, *arguments, on_proxy_core=on_proxy_core) as process:
            return json.loads(process.read_line())

    def _path(self, name: str) -> Path:
        return self.directory / f"{next(self._numbers):04d}-{name}"
