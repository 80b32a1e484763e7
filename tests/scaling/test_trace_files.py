"""Traces and request logs as files: each kind is known by its first line, faults are told with file and line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from proxy.scaling.trace_files import Trace, load_trace
from proxy.scaling.traces import UnusableTrace

HEAD = "arrival_s,service_s\n"
LINE: dict[str, Any] = {
    "arrival": "2026-03-01T23:59:59.500000Z",
    "request_id": "r-1",
    "ticket": 1,
    "method": "POST",
    "path": "/prompt",
    "client": "10.0.0.7",
    "wait_secs": 0.25,
    "run_secs": 2.5,
    "node": "gjtest-1",
    "status": 200,
    "outcome": "answered",
    "bytes_in": 10,
    "bytes_out": 20,
    "resends": 0,
    "job": None,
}
NEXT_DAY = LINE | {"arrival": "2026-03-02T00:00:01.000400Z", "run_secs": 0}
NEVER_RAN = LINE | {"run_secs": None, "wait_secs": 3.0, "node": None, "status": 429, "outcome": "not_sent"}


def json_log(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def csv_log(path: Path, *lines: dict[str, Any]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, LINE)
        writer.writeheader()
        writer.writerows(lines)
    return path


def rows(trace: Trace) -> list[tuple[int, int]]:
    assert len(trace) == len(list(trace))
    return list(trace)


@pytest.mark.parametrize("write", [json_log, csv_log])
def test_a_request_log_is_sorted_by_arrival_and_what_never_ran_is_left_out(
    write: Any, tmp_path: Path
) -> None:
    trace = load_trace([write(tmp_path / "log", NEXT_DAY, NEVER_RAN, LINE, NEVER_RAN)])
    assert rows(trace) == [(0, 2500), (1500, 1)]
    assert trace.left_out == 2


@pytest.mark.parametrize("write", [json_log, csv_log])
def test_rotated_files_are_taken_together_in_any_order(write: Any, tmp_path: Path) -> None:
    late = write(tmp_path / "log", NEXT_DAY)
    early = write(tmp_path / "log.1", LINE, NEVER_RAN)
    (tmp_path / "log.new").touch()
    trace = load_trace([late, tmp_path / "log.new", early])
    assert rows(trace) == [(0, 2500), (1500, 1)]
    assert trace.left_out == 1


def test_other_time_zones_and_columns_in_any_order_will_do(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "\ufeffrun_secs,note,arrival\n1,x,2026-03-01T10:00:00+08:00\n\n2,y,2026-03-01T02:00:01Z\n",
        encoding="utf-8",
    )
    assert rows(load_trace([path])) == [(0, 1000), (1000, 2000)]


def test_traces_keep_their_origin_and_several_are_merged(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEAD + "5,1\n9,1\n")
    (tmp_path / "b.csv").write_text(HEAD + "7,2\n")
    assert rows(load_trace([tmp_path / "a.csv"])) == [(5000, 1000), (9000, 1000)]
    merged = load_trace([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert rows(merged) == [(5000, 1000), (7000, 2000), (9000, 1000)]
    assert rows(merged.part(1, 3)) == [(0, 2000), (2000, 1000)]
    assert rows(merged.part(1, 1)) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: expected the header arrival_s,service_s"),
        (HEAD + "1,2\n0,2\n", "line 3: arrival 0 s comes before 1 s"),
        (HEAD, "no request that ran"),
        (json.dumps(NEVER_RAN), "no request that ran"),
        (json.dumps(LINE) + "\n{\n", "line 2: not JSON (Expecting property name"),
        (json.dumps(LINE) + "\n[]\n", "line 2: expected an object with arrival and run_secs"),
        ('{"arrival": "2026-03-01T10:00:00Z"}\n', "line 1: expected an object with arrival and run_secs"),
        (
            json.dumps(LINE | {"arrival": "yesterday"}),
            "line 1: expected arrival as RFC 3339, not 'yesterday'",
        ),
        (json.dumps(LINE | {"arrival": 5}), "line 1: expected arrival as RFC 3339, not 5"),
        (json.dumps(LINE | {"arrival": "2026-03-01T10:00:00"}), "line 1: expected arrival as RFC 3339"),
        (json.dumps(LINE | {"run_secs": -1}), "line 1: expected run_secs as a finite number"),
        (json.dumps(LINE | {"run_secs": True}), "line 1: expected run_secs as a finite number"),
        (json.dumps(LINE | {"run_secs": float("nan")}), "line 1: expected run_secs as a finite number"),
        ("arrival,run_secs\n2026-03-01T10:00:00Z,x\n", "line 2: expected run_secs as a finite number"),
        (
            "arrival,run_secs\n2026-03-01T10:00:00Z,1\nx\n",
            "line 3: expected 2 columns, as in the header, not 1",
        ),
        ("arrival,run_secs\nx,1\n", "line 2: expected arrival as RFC 3339, not 'x'"),
    ],
)
def test_what_is_wrong_is_told_with_its_file_and_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(UnusableTrace) as caught:
        load_trace([path])
    assert str(caught.value).startswith(f"{path}: {said}")


def test_files_that_cannot_be_read_together(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(HEAD + "0,1\n")
    log = json_log(tmp_path / "log", LINE)
    with pytest.raises(
        UnusableTrace, match=r"log is a request log, .*trace\.csv is none: give files of one kind"
    ):
        load_trace([trace, log])
    with pytest.raises(UnusableTrace, match=r"none\.csv: No such file or directory"):
        load_trace([tmp_path / "none.csv"])
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnusableTrace, match="byte 1 is not UTF-8"):
        load_trace([tmp_path / "bytes"])
