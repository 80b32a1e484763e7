"""`fifo-proxy simulate` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from proxy.cli import main


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    rows = "".join(f"{at},30\n" for at in range(0, 3600, 10))
    path.write_text("arrival_s,service_s\n" + rows)
    return path


def simulate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


def test_a_row_for_each_combination_of_a_sweep(trace: Path) -> None:
    result = simulate(trace, "--sweep", "max_nodes=3,6", "--sweep", "queue_scale_wait_secs=30,60", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["settings"] for row in rows] == [
        {"max_nodes": nodes, "queue_scale_wait_secs": wait} for nodes in (3, 6) for wait in (30, 60)
    ]
    assert all(row["requests"] == 360 and row["useful_hours"] == 3 for row in rows)
    assert rows[0]["peak_nodes"] == 3
    assert rows[2]["wait_p95"] < rows[0]["wait_p95"]
    assert rows[0]["cost"] is None


def test_the_table(trace: Path) -> None:
    result = simulate(trace, "--set", "max_nodes=6", "--price-per-hour", "2", "--limit-wait", "45")
    assert result.exit_code == 0, result.output
    assert "360 requests" in result.stdout
    for heading in (
        "wait p50",
        "p95",
        "p99",
        "max",
        "> 45 s",
        "paid h",
        "useful h",
        "used",
        "starts",
        "cost",
    ):
        assert heading in result.stdout


def test_the_users_thresholds_are_read_without_what_only_serving_needs(trace: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"provider": {"kind": "suanli"}, "proxy_port": 80, "max_nodes": 1, /* no token */}')
    with_file = simulate(trace, "--config", config, "--json")
    assert with_file.exit_code == 0, with_file.output
    assert json.loads(with_file.stdout) == json.loads(
        simulate(trace, "--set", "max_nodes=1", "--json").stdout
    )


def test_start_times_by_chance_are_seeded(trace: Path) -> None:
    arguments = (trace, "--node-start", "uniform:10,300", "--set", "max_nodes=6", "--json", "--seed")
    assert (
        simulate(*arguments, "1").stdout
        == simulate(*arguments, "1").stdout
        != simulate(*arguments, "2").stdout
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "max_node=3"], 'max_node = 3: unknown key (did you mean "max_nodes"?)'),
        (["--set", "max_nodes"], "max_nodes: expected key=value"),
        (["--sweep", "max_nodes=3,many"], 'max_nodes = "many": expected a whole number'),
        (["--set", "min_nodes=9"], "min_nodes = 9: expected at most max_nodes, which is 3"),
        (["--policy", "none"], "scaling_policy"),
        (["--node-start", "60"], "expected const:S"),
        (["--set", "max_nodes=0"], "max_nodes = 0"),
    ],
)
def test_bad_input_is_told_in_a_line(trace: Path, arguments: list[str], said: str) -> None:
    result = simulate(trace, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_trace_that_cannot_be_read(tmp_path: Path) -> None:
    result = simulate(tmp_path / "none.csv")
    assert (result.exit_code, result.stderr) == (2, f"{tmp_path}/none.csv: No such file or directory\n")
    (tmp_path / "bad.csv").write_text("arrival_s,service_s\n1,2\n0,2\n")
    result = simulate(tmp_path / "bad.csv")
    assert (result.exit_code, result.stderr) == (
        2,
        f"{tmp_path}/bad.csv: line 3: arrival 0 s comes before 1 s\n",
    )
