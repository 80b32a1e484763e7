"""python -m benchmarks: the proxy and its peers, measured in the same run.

Rounds, cases and targets are interleaved (A B A B; every other round runs the targets backwards), each target
is started afresh for each measurement and alone on its core. Whatever was started is stopped at the end, also
after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from benchmarks import report
from benchmarks.bench import Bench, Cores
from benchmarks.load import is_wrk_installed
from benchmarks.process import BenchmarkError
from benchmarks.scenario import Scenario
from benchmarks.scenarios import ALL
from benchmarks.targets import PEERS, SUBJECT, Target

_OPEN_FILES = 20_000  # 8,000 clients on both sides, 500 nodes


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [scenario.name for scenario in ALL]
    peers = [peer.name for peer in PEERS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of: {' '.join(names)}")
    parser.add_argument("--peers", nargs="*", choices=peers, metavar="PEER", help=f"of: {' '.join(peers)}")
    parser.add_argument("--rounds", type=int, metavar="N", help="default 5, or 1 with --quick")
    parser.add_argument("--quick", action="store_true", help="short and small: to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there as well")
    parser.add_argument("--without-subject", action="store_true", help="the peers alone")
    return parser.parse_args(arguments)


def usable(wanted: Sequence[Target], console: Console) -> list[Target]:
    """Those that can run here; why the others cannot is printed."""
    able = []
    for target in wanted:
        missing = target.missing()
        if missing is None:
            able.append(target)
        else:
            console.print(f"[yellow]without {target.name}: {escape(missing)}[/]")
    return able


def prepare(scenario: Scenario, targets: Sequence[Target], is_quick: bool) -> report.Result:
    """An empty result for those of the targets that the scenario is for."""
    known = {SUBJECT.name, *scenario.peers}
    names = [target.name for target in targets if target.name in known]
    if not scenario.peers:  # in-process: nothing of a target is started
        names = [SUBJECT.name]
    return report.Result(scenario, SUBJECT.name, names, scenario.cases_for(is_quick))


def measure(bench: Bench, result: report.Result, rounds: int, console: Console) -> None:
    """Fills `result` as it goes, so that an interrupted run still has what was measured."""
    scenario = result.scenario
    targets = [target for target in (SUBJECT, *PEERS) if target.name in result.targets]
    for number in range(min(rounds, scenario.max_rounds)):
        for case in result.cases:
            for target in targets if number % 2 == 0 else reversed(targets):
                with console.status(f"{scenario.name}, round {number + 1}: {case}: {target.name}"):
                    try:
                        sample = scenario.measure(bench, target, case)
                    except BenchmarkError as error:
                        result.failures.append(f"{target.name}, {case}: {error}")
                        sample = None
                result.add(case, target.name, sample)


def about(cores: Cores, targets: Sequence[Target], rounds: int) -> dict[str, Any]:
    """The machine and the run, for whoever reads the figures later."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": model,
        "cores": {"proxy": cores.proxy, "load": cores.load},
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average_before": os.getloadavg()[0],
        "rounds": rounds,
        "versions": {
            name: _version([name, flag]) for name, flag in (("haproxy", "-v"), ("nginx", "-v"), ("wrk", "-v"))
        },
        "targets": [target.name for target in targets],
    }


def _version(argv: list[str]) -> str | None:
    try:
        ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return (ended.stdout + ended.stderr).partition("\n")[0]


def main() -> None:
    options = parse()
    console = Console(width=max(160, Console().width) if not sys.stdout.isatty() else None)
    if not is_wrk_installed():
        raise SystemExit("wrk is not installed (apt-get install wrk)")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # every `with` block ends, as after Ctrl-C
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_OPEN_FILES, hard), hard))

    peers = [peer for peer in PEERS if options.peers is None or peer.name in options.peers]
    targets = usable([*([] if options.without_subject else [SUBJECT]), *peers], console)
    rounds = options.rounds or (1 if options.quick else 5)
    cores = Cores.choose()
    facts = about(cores, targets, rounds)
    console.print_json(json.dumps(facts))
    results: list[report.Result] = []
    is_interrupted = False
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        bench = Bench(cores, Path(directory), options.quick)
        try:
            for scenario in ALL:
                if options.only is None or scenario.name in options.only:
                    results.append(prepare(scenario, targets, options.quick))
                    measure(bench, results[-1], rounds, console)
                    report.print_result(console, results[-1])
        except KeyboardInterrupt:
            is_interrupted = True
            console.print("[yellow]stopped; what was measured so far:[/]")
            report.print_result(console, results[-1])
        finally:
            report.print_goals(console, results)
            if options.json:
                text = json.dumps(report.as_json(results, facts), indent=1, ensure_ascii=False)
                options.json.write_text(text + "\n")
    if is_interrupted:
        sys.exit(130)


if __name__ == "__main__":
    main()
