"""Large bodies: 256 MB up, then down, one at a time; how fast, and how much the proxy's memory grows
meanwhile."""

from __future__ import annotations

import json
import threading
from typing import Self

from benchmarks.bench import Bench
from benchmarks.scenario import Figure, Goal, Sample, Scenario
from benchmarks.targets import Proxy, Target

_CASES = {"256 MB up": ("up", 256), "256 MB down": ("down", 256)}
_QUICK = {"32 MB up": ("up", 32), "32 MB down": ("down", 32)}
_WARM_UP_BYTES = 8 << 20


class PeakMemory:
    """Watches the proxy's resident memory, fifty times a second, for the length of a `with` block."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            self.peak_bytes = max(self.peak_bytes, self._proxy.rss_bytes())


def measure(bench: Bench, target: Target, case: str) -> Sample:
    direction, megabytes = (_CASES | _QUICK)[case]
    size = megabytes << 20
    with bench.nodes(1) as nodes, bench.proxy(target, nodes) as proxy:
        bench.run("benchmarks.clients.bulk", direction, proxy.port, _WARM_UP_BYTES)
        before = proxy.rss_bytes()
        with (
            PeakMemory(proxy) as memory,
            bench.program("benchmarks.clients.bulk", direction, proxy.port, size) as client,
        ):
            secs = json.loads(client.read_line())["secs"]
        seen = nodes.read()
    return Sample(
        {
            "mb_per_sec": size / secs / 1e6,
            "rss_growth_mb": (max(memory.peak_bytes, before) - before) / 1e6,
            "node_busy_secs": seen.busy_secs,
        }
    )


SCENARIO = Scenario(
    name="bodies",
    title="Large bodies",
    figures=(
        Figure("mb_per_sec", "MB/s"),
        Figure("rss_growth_mb", "RSS growth", "MB", 1),
        Figure("node_busy_secs", "node busy", "s", 2),
    ),
    cases=tuple(_CASES),
    quick_cases=tuple(_QUICK),
    peers=("haproxy", "nginx", "nginx+haproxy", "aiohttp"),
    goals=(
        *(Goal("mb_per_sec", case, 0.9, at_least=True, peer="haproxy") for case in _CASES),
        *(Goal("rss_growth_mb", case, 32) for case in _CASES),
    ),
    measure=measure,
)
