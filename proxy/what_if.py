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
from proxy.scaling.failures import failures_by_chance
from proxy.scaling.figures import Figures, figures_of
from proxy.scaling.rules import Limits
from proxy.scaling.simulate import Run, simulate
from proxy.scaling.trace_files import Trace
from proxy.scaling.traces import node_start

_ADVANCE = 2048  # requests between two looks at the progress bar
_WIDTH = 170  # a row of figures that is broken over lines cannot be compared
# Without a file: the rules do not ask what makes the nodes.
_ANY_ENGINE = {"provider": {"kind": "process", "command": ["node", "{port}"]}}


def settings_of(
    config_path: Path | None, sets: Sequence[str], sweeps: Sequence[str], policy: str | None
) -> list[tuple[dict[str, Any], Config]]:
    """Every setting to try: what distinguishes it, and its configuration. Raises ConfigError, one line per fault."""
    base: dict[str, Any] = read(config_path) if config_path is not None else dict(_ANY_ENGINE)
    base |= {key: _value(text) for key, text in map(_pair, sets)}
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


def run_all(
    scenario: Scenario, settings: Sequence[tuple[Mapping[str, Any], Config]]
) -> Iterator[tuple[Mapping[str, Any], Config, Run]]:
    """Replay each setting, with a progress bar on a terminal. Raises UnusableTrace and UnusableNodeStart."""
    with progress_bar() as progress:
        task = progress.add_task("simulating", total=len(settings) * len(scenario.trace))
        for differs, config in settings:
            requests = None if progress.disable else _counted(scenario.trace, progress, task)
            yield differs, config, scenario.replay(config, requests)


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
    names = {field.name for field in fields(Limits)} & set(Config.model_fields)
    return Limits(**{name: getattr(config, name) for name in names})


def show(
    found: Sequence[tuple[Mapping[str, Any], Figures]], *, as_json: bool, limit_wait_secs: float
) -> None:
    """Print the table, or JSON: a list of `{"settings": {...}, ...figures}`."""
    if as_json:
        print(
            json.dumps(
                [{"settings": dict(differs), **asdict(figures)} for differs, figures in found], indent=2
            )
        )
        return
    figures = [each for _, each in found]
    table = Table(box=box.SIMPLE)
    for key in found[0][0]:
        table.add_column(key, no_wrap=True)
    columns = columns_of(figures, limit_wait_secs)
    for name in columns:
        table.add_column(name, justify="right")
    for (differs, _), *cells in zip(found, *columns.values(), strict=True):
        table.add_row(*map(str, differs.values()), *cells)
    console = Console(width=max(Console().width, _WIDTH))
    console.print(f"{figures[0].requests} requests")
    console.print(table)


def columns_of(figures: Sequence[Figures], limit_wait_secs: float) -> dict[str, list[str]]:
    """The figures as a table: each column's heading and cells. Cost and failures where there are any."""
    columns = {
        "wait p50": [f"{each.wait_p50:.1f} s" for each in figures],
        "p95": [f"{each.wait_p95:.1f} s" for each in figures],
        "p99": [f"{each.wait_p99:.1f} s" for each in figures],
        "max": [f"{each.wait_max:.1f} s" for each in figures],
        f"> {limit_wait_secs:g} s": [f"{each.late_share:.1%}" for each in figures],
        "paid h": [f"{each.paid_hours:.2f}" for each in figures],
        "useful h": [f"{each.useful_hours:.2f}" for each in figures],
        "used": [f"{each.utilisation:.1%}" for each in figures],
        "peak": [str(each.peak_nodes) for each in figures],
        "starts": [str(each.starts) for each in figures],
        "actions": [str(each.actions) for each in figures],
    }
    if any(each.failed_starts or each.node_deaths for each in figures):
        columns["failed starts"] = [str(each.failed_starts) for each in figures]
        columns["deaths"] = [str(each.node_deaths) for each in figures]
        columns["failed requests"] = [str(each.failed_requests) for each in figures]
    if any(each.cost is not None for each in figures):
        columns["cost"] = ["" if each.cost is None else f"{each.cost:.2f}" for each in figures]
    return columns


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
