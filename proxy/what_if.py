"""`fifo-proxy simulate`: a trace through the real rules in virtual time, once or for each setting of a sweep."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from itertools import product
from pathlib import Path
from typing import Any

import json5
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from proxy.config import Config, parse, read
from proxy.errors import ConfigError
from proxy.scaling.figures import Figures, figures_of
from proxy.scaling.rules import Limits
from proxy.scaling.simulate import simulate
from proxy.scaling.traces import UnusableTrace, node_start, read_trace

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


def run(
    trace_path: Path,
    settings: Sequence[tuple[Mapping[str, Any], Config]],
    *,
    start: str,
    seed: int,
    limit_wait_secs: float,
    price_per_hour: float | None,
) -> list[tuple[Mapping[str, Any], Figures]]:
    """The figures of each setting. Raises UnusableTrace and UnusableNodeStart."""
    try:
        with trace_path.open(newline="") as lines:
            arrivals, services = array("q"), array("q")  # 16 bytes a request, read once for all settings
            for arrival, service in read_trace(lines):
                arrivals.append(arrival)
                services.append(service)
    except OSError as error:
        raise UnusableTrace(f"{trace_path}: {error.strerror}") from None
    except (UnusableTrace, UnicodeDecodeError) as error:
        raise UnusableTrace(f"{trace_path}: {error}") from None
    found = []
    progress = Console(stderr=True)
    for differs, config in track(
        settings, "simulating", console=progress, transient=True, disable=not progress.is_terminal
    ):
        done = simulate(
            zip(arrivals, services, strict=True),
            limits_of(config),
            config.scaling_policy,
            node_start(start, seed),
            check_interval_ms=round(config.scale_check_interval_secs * 1000),
        )
        figures = figures_of(done, limit_wait_secs=limit_wait_secs, price_per_hour=price_per_hour)
        found.append((differs, figures))
    return found


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
    has_cost = any(figures.cost is not None for _, figures in found)
    table = Table(box=box.SIMPLE)
    for key in found[0][0]:
        table.add_column(key, no_wrap=True)
    for name in ("wait p50", "p95", "p99", "max", f"> {limit_wait_secs:g} s", "paid h", "useful h", "used"):
        table.add_column(name, justify="right")
    for name in ("peak", "starts", "actions", *(["cost"] if has_cost else [])):
        table.add_column(name, justify="right")
    for differs, figures in found:
        cost = [f"{figures.cost:.2f}"] if figures.cost is not None else []
        table.add_row(
            *(str(value) for value in differs.values()),
            f"{figures.wait_p50:.1f} s",
            f"{figures.wait_p95:.1f} s",
            f"{figures.wait_p99:.1f} s",
            f"{figures.wait_max:.1f} s",
            f"{figures.late_share:.1%}",
            f"{figures.paid_hours:.2f}",
            f"{figures.useful_hours:.2f}",
            f"{figures.utilisation:.1%}",
            str(figures.peak_nodes),
            str(figures.starts),
            str(figures.actions),
            *cost,
        )
    console = Console(width=max(Console().width, _WIDTH))
    console.print(f"{found[0][1].requests} requests")
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
