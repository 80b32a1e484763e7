"""The benchmark command still runs: short, with whatever peers are installed. It holds no figure to a threshold."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk makes the load"),
]


def test_a_quick_run_measures_the_proxy_and_says_what_it_reached(tmp_path: Path) -> None:
    written = tmp_path / "figures.json"

    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--only", "throughput", "latency", "--json", written],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )

    assert ended.returncode == 0, ended.stderr
    throughput, latency = json.loads(written.read_text())["scenarios"]
    assert throughput["failures"] == latency["failures"] == []
    ours = next(m for m in throughput["measurements"] if m["target"] == "fifo-proxy")
    assert ours["medians"]["requests_per_sec"] > 0
    assert ours["faults"] == {}
    assert {goal["what"] for goal in throughput["goals"]}
    assert "Goals" in ended.stdout
