"""Traces and start times as they are read, and what is said of those that cannot be."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from proxy.scaling.traces import UnusableNodeStart, UnusableTrace, node_start, read_trace

HEAD = "arrival_s,service_s\n"


def test_a_trace_is_read_in_whole_milliseconds_and_a_service_takes_one_at_least() -> None:
    assert list(read_trace([HEAD, "0.0004,0\n", "\n", "8.337,0.668\n"])) == [(0, 1), (8337, 668)]
    assert list(read_trace([HEAD])) == []
    assert list(read_trace([" arrival_s, service_s,note\n", "1,2,x\n"])) == [(1000, 2000)]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "line 1: expected the header arrival_s,service_s"),
        (["0,1\n"], "line 1: expected the header arrival_s,service_s"),
        ([HEAD, "0,1\n", "x,1\n"], "line 3: expected two numbers of seconds, not 'x,1'"),
        ([HEAD, "5\n"], "line 2: expected two numbers of seconds, not '5'"),
        ([HEAD, "0,-1\n"], "line 2: expected finite numbers of at least 0"),
        ([HEAD, "nan,1\n"], "line 2: expected finite numbers of at least 0"),
        ([HEAD, "0,inf\n"], "line 2: expected finite numbers of at least 0"),
        ([HEAD, "2,1\n", "1,1\n"], "line 3: arrival 1 s comes before 2 s"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(rows: list[str], said: str) -> None:
    with pytest.raises(UnusableTrace) as caught:
        list(read_trace(rows))
    assert str(caught.value) == said


def draws(spec: str, count: int = 2000, seed: int = 1) -> list[int]:
    draw = node_start(spec, seed)
    return [draw() for _ in range(count)]


def test_start_times(tmp_path: Path) -> None:
    assert set(draws("const:60")) == {60_000}
    uniform = draws("uniform:40,90")
    assert 40_000 <= min(uniform) < 41_000
    assert 89_000 < max(uniform) <= 90_000
    assert 57_000 < median(draws("lognorm:60,0.3")) < 63_000
    path = tmp_path / "quantiles.csv"
    path.write_text("quantile,seconds\n0,10\n0.5,20\n1,100\n")
    measured = draws(f"file:{path}")
    assert 18_000 < median(measured) < 22_000
    assert min(measured) >= 10_000
    assert max(measured) <= 100_000


def test_a_seed_makes_the_same_start_times() -> None:
    assert draws("uniform:40,90", seed=7) == draws("uniform:40,90", seed=7) != draws("uniform:40,90", seed=8)


@pytest.mark.parametrize(
    "spec",
    ["60", "const:", "const:-1", "const:1,2", "uniform:90,40", "lognorm:0,1", "uniform:nan,1", "gamma:1,2"],
)
def test_a_start_time_that_is_none(spec: str) -> None:
    with pytest.raises(UnusableNodeStart, match="expected const:S, uniform:A,B"):
        node_start(spec, 0)


@pytest.mark.parametrize("text", ["quantile,seconds\n", "q,s\n0,1\nx,2\n", "q,s\n0,1\n2,5\n"])
def test_quantiles_that_are_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "quantiles.csv"
    path.write_text(text)
    with pytest.raises(UnusableNodeStart):
        node_start(f"file:{path}", 0)
    with pytest.raises(UnusableNodeStart, match="No such file"):
        node_start(f"file:{tmp_path}/none.csv", 0)
