"""`fifo-proxy tune` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from proxy.cli import main
from proxy.scaling.trace_files import load_trace
from proxy.tune import ladders_of, split
from proxy.what_if import Scenario

HOUR = 3600


@pytest.fixture
def steady(tmp_path: Path) -> Path:
    """Three hours of a request every 10 s that takes 25 s: three nodes always suffice, two never do."""
    path = tmp_path / "steady.csv"
    path.write_text("arrival_s,service_s\n" + "".join(f"{at},25\n" for at in range(0, 3 * HOUR, 10)))
    return path


def tune(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["tune", *map(str, arguments)])


def answer(*arguments: str | Path, code: int = 0) -> dict[str, Any]:
    result = tune(*arguments, "--json")
    assert result.exit_code == code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_cheapest_setting_of_a_load_that_is_known(steady: Path) -> None:
    arguments = (steady, "--target-p95-wait", "0", "--max-nodes", "8", "--held-out", "0.5", "--trials", "150")
    found = answer(*arguments, "--price-per-hour", "2")
    tuned, held_out = found["searched"]["tuned"], found["held_out"]["tuned"]
    # Three nodes for an hour and a half, none in the half hour that every simulation goes on for.
    assert (tuned["wait_p95"], held_out["wait_p95"]) == (0, 0)
    assert tuned["paid_hours"] == pytest.approx(3 * 1.5, rel=0.02)
    assert found["changes"]["min_nodes"] == 0
    assert found["meets_target"] is found["meets_target_held_out"] is True
    current = found["searched"]["current"]["paid_hours"] + found["held_out"]["current"]["paid_hours"]
    saved = current - tuned["paid_hours"] - held_out["paid_hours"]
    assert found["saved_node_hours"] == pytest.approx(saved)
    assert found["saved_share"] == pytest.approx(saved / current)
    assert found["saved_cost"] == pytest.approx(2 * saved)
    assert answer(*arguments, "--price-per-hour", "2") == found


def test_what_it_prints_can_be_pasted_and_does_what_it_says(steady: Path, tmp_path: Path) -> None:
    arguments = (steady, "--target-p95-wait", "30", "--max-nodes", "6", "--trials", "80")
    result = tune(*arguments)
    assert result.exit_code == 0, result.output
    text = result.stdout
    changes = json.loads(text[text.index("{") : text.index("}") + 1])
    found = answer(*arguments)
    assert changes == found["changes"]
    config = tmp_path / "config.json"
    config.write_text(json.dumps(changes | {"provider": {"kind": "static", "nodes": ["http://127.0.0.1:1"]}}))
    first_part = tmp_path / "first.csv"
    rows = steady.read_text().splitlines(keepends=True)
    first_part.write_text("".join(rows[: 1 + found["searched"]["tuned"]["requests"]]))
    replayed = CliRunner().invoke(main, ["simulate", str(first_part), "--config", str(config), "--json"])
    (row,) = json.loads(replayed.stdout)
    assert {key: row[key] for key in found["searched"]["tuned"]} == found["searched"]["tuned"]
    assert row["wait_p95"] <= 30


def test_where_nothing_meets_the_target_the_nearest_is_shown(steady: Path) -> None:
    arguments = (steady, "--target-p95-wait", "5", "--max-nodes", "2", "--trials", "60")
    result = tune(*arguments)
    assert result.exit_code == 1
    assert "settings meets a p95 wait of 5 s. The nearest:" in result.stdout
    found = answer(*arguments, code=1)
    assert found["meets_target"] is False
    assert found["changes"] == {"min_nodes": 2, "max_nodes": 2}
    assert found["searched"]["tuned"]["wait_p95"] > 5


def test_a_current_setting_that_cannot_be_beaten_stays(tmp_path: Path) -> None:
    path = tmp_path / "rare.csv"
    path.write_text("arrival_s,service_s\n" + "".join(f"{at},1\n" for at in range(0, HOUR, 100)))
    only = ("--set", "max_nodes=1", "--set", "min_nodes=0", "--set", "idle_shutdown_secs=120")
    arguments = (path, "--target-p95-wait", "0", "--trials", "60", *only)
    assert answer(*arguments)["changes"] == {}
    assert "(the current one)" in tune(*arguments).stdout


def test_a_target_missed_on_the_part_held_out_is_told(tmp_path: Path) -> None:
    path = tmp_path / "grows.csv"
    calm = range(0, 2 * HOUR, 100)
    wild = range(2 * HOUR, 3 * HOUR, 10)
    path.write_text("arrival_s,service_s\n" + "".join(f"{at},25\n" for at in (*calm, *wild)))
    result = tune(path, "--target-p95-wait", "10", "--max-nodes", "1", "--trials", "40")
    assert result.exit_code == 0, result.output
    assert "On the part held out it misses the target: p95 wait" in result.stdout


def test_processes_change_nothing_but_the_time(steady: Path) -> None:
    arguments = (steady, "--target-p95-wait", "20", "--max-nodes", "4", "--trials", "30")
    assert answer(*arguments, "--jobs", "2") == answer(*arguments, "--jobs", "1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing option '--target-p95-wait'"),
        (["--target-p95-wait", "-1"], "-1.0 is not in the range x>=0"),
        (["--target-p95-wait", "1", "--held-out", "1"], "1.0 is not in the range 0<x<1"),
        (
            ["--target-p95-wait", "1", "--set", "min_nodes=9"],
            "--set: min_nodes = 9: expected at most max_nodes",
        ),
        (["--target-p95-wait", "1", "--node-start", "60"], "expected const:S"),
    ],
)
def test_bad_input_is_told(steady: Path, arguments: list[str], said: str) -> None:
    result = tune(steady, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_trace_is_split_by_time(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,service_s\n10,1\n20,2\n30,3\n100,4\n110,5\n")
    first, rest = split(Scenario(load_trace([path])), 0.5)
    assert list(first.trace) == [(0, 1000), (10_000, 2000), (20_000, 3000)]
    assert list(rest.trace) == [(0, 4000), (10_000, 5000)]
    path.write_text("arrival_s,service_s\n10,1\n")
    result = tune(path, "--target-p95-wait", "1")
    assert (result.exit_code, result.stderr) == (2, "1 requests are too few to hold a part of them out\n")


def test_ladders_hold_the_current_values_and_keys_that_have_none_of_their_own() -> None:
    now = {
        "scaling_policy": "threshold",
        "min_nodes": 1,
        "max_nodes": 3,
        "idle_shutdown_secs": 77.0,
        "new": 8,
    }
    ladders = ladders_of(now, 7)
    assert ladders["max_nodes"] == [1, 2, 3, 4, 5, 6, 7]
    assert "per_request" in ladders["scaling_policy"]
    assert 77.0 in ladders["idle_shutdown_secs"]
    assert ladders_of(now, 2)["max_nodes"] == [1, 2]
    assert ladders["new"] == [1, 2, 4, 8, 16, 32, 64]
