"""`fifo-proxy simulate`: a trace through the real rules in virtual time, once or for each setting of a sweep."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

import json5
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from proxy.config import Config, parse, read
from proxy.errors import ConfigError
from proxy.report.page import page_of_run, page_of_sweep
from proxy.scaling.failures import failures_by_chance
from proxy.scaling.figures import Figures, columns_of, figures_of
from proxy.scaling.rules import Limits
from proxy.scaling.series import series_of
from proxy.scaling.simulate import Run, simulate
from proxy.scaling.trace_files import Trace
from proxy.scaling.traces import node_start

_ADVANCE = 2048  # requests between two looks at the progress bar
TABLE_WIDTH = 170  # a row of figures that is broken over lines cannot be compared
# Without a file: the rules do not ask what makes the nodes.
_ANY_ENGINE = {"provider": {"kind": "process", "command": ["node", "{port}"]}}


def base_of(config_path: Path | None, sets: Sequence[str]) -> dict[str, Any]:
    """The current configuration as it is written, with other values for some keys. Raises ConfigError."""
    base: dict[str, Any] = read(config_path) if config_path is not None else dict(_ANY_ENGINE)
    return base | {key: _value(text) for key, text in map(_pair, sets)}


def settings_of(
    config_path: Path | None, sets: Sequence[str], sweeps: Sequence[str], policy: str | None
) -> list[tuple[dict[str, Any], Config]]:
    """Every setting to try: what distinguishes it, and its configuration. Raises ConfigError, one line per fault."""
    base = base_of(config_path, sets)
    if policy is not None:
        base["scaling_policy"] = policy
    swept = [(key, [_value(part) for part in text.split(",")]) for key, text in map(_pair, sweeps)]
    keys = [key for key, _ in swept]
    found = []
    for values in product(*(values for _, values in swept)):
        differs = dict(zip(keys, values, strict=True))
        found.append((differs, parse(base | differs, origin=str(config_path or "--set"), serving=False)))
    return found


@dataclass(frozen=True, slots=True)
class Scenario:
    """What does not depend on the configuration. `start`: a spec of `traces.node_start`; `failed_starts`: share of
    starts; `node_deaths`: per hour of a ready node. The same `seed` makes the same chances."""

    trace: Trace
    start: str = "const:60"
    seed: int = 0
    failed_starts: float = 0.0
    node_deaths: float = 0.0
    limit_wait_secs: float = 60.0
    price_per_hour: float | None = None

    def replay(self, config: Config, requests: Iterable[tuple[int, int]] | None = None) -> Run:
        """The trace under this configuration. `requests`: the same, counted by the one who passes them. Raises
        UnusableTrace and UnusableNodeStart."""
        failures = failures_by_chance(
            failed_start_share=self.failed_starts,
            deaths_per_node_hour=self.node_deaths,
            seed=self.seed,
            start_timeout_secs=config.node_start_timeout_secs,
            unready_destroy_secs=config.unready_destroy_secs,
        )
        return simulate(
            self.trace if requests is None else requests,
            limits_of(config),
            config.scaling_policy,
            node_start(self.start, self.seed),
            check_interval_ms=round(config.scale_check_interval_secs * 1000),
            failures=failures,
        )

    def figures(self, run: Run) -> Figures:
        return figures_of(run, limit_wait_secs=self.limit_wait_secs, price_per_hour=self.price_per_hour)

    def told(self) -> dict[str, str]:
        """What it is besides the trace, for people."""
        told = {"node start": self.start, "seed": str(self.seed)}
        if self.failed_starts:
            told["failed starts"] = f"{self.failed_starts:.1%}"
        if self.node_deaths:
            told["node deaths"] = f"{self.node_deaths:g} per node-hour"
        if self.price_per_hour is not None:
            told["price of a node-hour"] = f"{self.price_per_hour:g}"
        return told


@dataclass(frozen=True, slots=True)
class Result:
    """`differs`: what distinguishes its configuration in a sweep. `run`: only of a single one, a sweep of long
    traces would fill the memory with them."""

    differs: Mapping[str, Any]
    config: Config
    figures: Figures
    run: Run | None


def run_all(scenario: Scenario, settings: Sequence[tuple[Mapping[str, Any], Config]]) -> list[Result]:
    """Replay each setting, with a progress bar on a terminal. Raises UnusableTrace and UnusableNodeStart."""
    results = []
    with progress_bar() as progress:
        task = progress.add_task("simulating", total=len(settings) * len(scenario.trace))
        for differs, config in settings:
            requests = None if progress.disable else _counted(scenario.trace, progress, task)
            run = scenario.replay(config, requests)
            kept = run if len(settings) == 1 else None
            results.append(Result(differs, config, scenario.figures(run), kept))
    return results


def progress_bar() -> Progress:
    """On standard error, gone when it is done; none where that is no terminal."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _counted(trace: Trace, progress: Progress, task: TaskID) -> Iterator[tuple[int, int]]:
    for number, request in enumerate(trace):
        if number % _ADVANCE == 0:
            progress.advance(task, min(_ADVANCE, len(trace) - number))
        yield request


def limits_of(config: Config) -> Limits:
    """The configuration's limits for the rules."""
    return Limits(**{key: getattr(config, key) for key in rule_keys() if key != "scaling_policy"})


def rule_keys() -> list[str]:
    """The keys of the configuration that the rules decide by."""
    limits = {field.name for field in fields(Limits)}
    return ["scaling_policy", *(key for key in Config.model_fields if key in limits)]


def write_report(path: Path, name: str, scenario: Scenario, results: Sequence[Result]) -> None:
    """The page of these results; of a single one, of its run over time. Raises OSError."""
    first, world = results[0], scenario.told()
    limits = {key: getattr(first.config, key) for key in rule_keys() if key not in first.differs}
    if first.run is not None:
        page = page_of_run(
            name,
            first.run,
            series_of(first.run, scenario.trace.service_ms),
            first.figures,
            limit_wait_secs=scenario.limit_wait_secs,
            max_nodes=first.config.max_nodes,
            run_with={**world, **first.differs, **limits},
        )
    else:
        page = page_of_sweep(
            name,
            [(result.differs, result.figures) for result in results],
            limit_wait_secs=scenario.limit_wait_secs,
            run_with={**world, **limits},
        )
    path.write_text(page, encoding="utf-8")


def show(results: Sequence[Result], *, as_json: bool, limit_wait_secs: float) -> None:
    """Print the table, or JSON: a list of `{"settings": {...}, ...figures}`."""
    if as_json:
        rows = [{"settings": dict(result.differs), **asdict(result.figures)} for result in results]
        print(json.dumps(rows, indent=2))
        return
    figures = [result.figures for result in results]
    table = Table(box=box.SIMPLE)
    for key in results[0].differs:
        table.add_column(key, no_wrap=True)
    columns = columns_of(figures, limit_wait_secs)
    for name in columns:
        table.add_column(name, justify="right")
    for result, *cells in zip(results, *columns.values(), strict=True):
        table.add_row(*map(str, result.differs.values()), *cells)
    console = Console(width=max(Console().width, TABLE_WIDTH))
    console.print(f"{figures[0].requests} requests")
    console.print(table)


def _pair(text: str) -> tuple[str, str]:
    key, found, value = text.partition("=")
    if not found or not value:
        raise ConfigError([f"{text}: expected key=value"])
    return key.strip(), value.strip()


def _value(text: str) -> Any:
    """As in the environment: JSON where it is some, else a text."""
    try:
        return json5.loads(text)
    except ValueError:
        return text
