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


def test_failures_are_seeded_counted_and_left_out_of_what_is_useful(trace: Path) -> None:
    arguments = (trace, "--set", "max_nodes=6", "--failed-starts", "0.5", "--node-deaths", "3")
    result = simulate(*arguments, "--json")
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)
    assert row["failed_starts"] > 0
    assert 0 < row["failed_requests"] <= row["node_deaths"]
    assert row["requests"] == 360
    assert row["useful_hours"] == pytest.approx((360 - row["failed_requests"]) * 30 / 3600)
    assert simulate(*arguments, "--json").stdout == result.stdout
    assert simulate(*arguments, "--json", "--seed", "1").stdout != result.stdout
    assert "failed requests" in simulate(*arguments).stdout
    assert "failed requests" not in simulate(trace).stdout


def test_the_proxys_own_request_log_in_rotated_files(tmp_path: Path) -> None:
    line = '{"arrival": "2026-03-01T10:00:%02d.000000Z", "run_secs": %s}\n'
    (tmp_path / "log").write_text(line % (7, 5) + line % (9, "null"))
    (tmp_path / "log.1").write_text(line % (1, 2.5) + line % (0, 4))
    result = simulate(tmp_path / "log", tmp_path / "log.1", "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == "lines without a run, left out: 1\n"
    (row,) = json.loads(result.stdout)
    assert (row["requests"], row["wait_max"]) == (3, 3)
    assert row["useful_hours"] == pytest.approx(11.5 / 3600)


def test_a_terminal_shows_how_far_it_is_and_nothing_else_changes(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = simulate(trace, "--sweep", "max_nodes=3,6", "--json")
    assert quiet.stderr == ""
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    shown = simulate(trace, "--sweep", "max_nodes=3,6", "--json")
    assert "simulating" in shown.stderr
    assert "100%" in shown.stderr
    assert shown.stdout == quiet.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--failed-starts", "1"], "1.0 is not in the range 0<=x<1"),
        (["--node-deaths", "-1"], "-1.0 is not in the range x>=0"),
    ],
)
def test_failures_out_of_range(trace: Path, arguments: list[str], said: str) -> None:
    result = simulate(trace, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


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
