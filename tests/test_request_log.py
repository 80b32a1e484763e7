from __future__ import annotations

import csv
import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from proxy.clock import Clock
from proxy.records import FIELDS, Record, Recorder, path_of
from proxy.request_log import LogFile, RequestLog
from proxy.scaling.trace_files import load_trace
from tests.fakes.until import until


def record(number: int = 1, **fields: Any) -> Record:
    given: dict[str, Any] = {
        "joined_at": 10.0 + number,
        "ended_at": 20.0,
        "request_id": b"id-%d" % number,
        "method": b"POST",
        "target": b"/a,b\xe9?token=s3cret",
        "client": "192.0.2.1",
        "status": 200,
        "outcome": "answered",
        "ticket": number,
        "wait_secs": 1.5,
        "run_secs": 2.25,
        "node": "node-1",
    }
    return Record(**given | fields)


class Rig:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[str | None] = []
        self.log = RequestLog(Clock(lambda: 0.0, lambda: 1_700_000_000.0), self.faults.append)
        self.apply()

    def apply(self, *, max_bytes: int = 10**6, keep: int = 2, has_query: bool = False) -> None:
        self.log.apply(LogFile(self.path, max_bytes, keep, has_query))

    async def write(self, *records: Record) -> None:
        """Hand over, and wait until it is written or refused."""
        self.log.write(records)
        await until(lambda: self.log._waiting == 0, "it is written")

    def lines(self, suffix: str = "") -> list[str]:
        return self.path.with_name(self.path.name + suffix).read_text().splitlines()

    def numbers(self, suffix: str = "") -> list[int]:
        return [json.loads(line)["ticket"] for line in self.lines(suffix)]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path / "logs" / "requests.log")
    yield rig
    await rig.log.stop()


async def test_a_json_line(rig: Rig) -> None:
    await rig.write(record(), record(2, status=0, outcome="client_left", run_secs=None, node=None))
    first, second = map(json.loads, rig.lines())
    assert first == {
        "arrival": "2023-11-14T22:13:31.000000Z", "request_id": "id-1", "ticket": 1, "method": "POST",
        "path": "/a,bé", "client": "192.0.2.1", "wait_secs": 1.5, "run_secs": 2.25, "node": "node-1",
        "status": 200, "outcome": "answered", "bytes_in": 0, "bytes_out": 0, "resends": 0, "job": None,
    }  # fmt: skip
    assert (second["status"], second["run_secs"], second["node"]) == (None, None, None)
    assert rig.faults == []


async def test_csv_by_the_name_with_one_head_line(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "requests.CSV")
    await rig.write(record(1))
    await rig.write(record(2, method=b'say "hi"'))
    await rig.log.stop()
    await rig.write(record(3))  # as after a restart
    await rig.log.stop()
    with rig.path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["ticket"] for row in rows] == ["1", "2", "3"]
    assert tuple(rows[0]) == FIELDS
    assert (rows[0]["path"], rows[1]["method"]) == ("/a,bé", 'say "hi"')


@pytest.mark.parametrize("name", ["requests.log", "requests.csv"])
async def test_a_query_is_written_only_where_asked_for(name: str, tmp_path: Path) -> None:
    rig = Rig(tmp_path / name)
    await rig.write(record())
    assert "s3cret" not in rig.path.read_text()
    rig.apply(has_query=True)
    await rig.write(record(2))
    assert rig.path.read_text().count("token=s3cret") == 1
    await rig.log.stop()


async def test_rotation_keeps_so_many_whole_files(rig: Rig) -> None:
    size = len(json.dumps(json.loads(await _line(rig, record(1))))) + 1
    rig.apply(max_bytes=3 * size, keep=2)
    for number in range(2, 12):
        await rig.write(record(number))
    kept = rig.numbers(".2") + rig.numbers(".1") + rig.numbers()
    assert kept == list(range(12 - len(kept), 12))
    assert all(path.stat().st_size <= 3 * size + 5 for path in rig.path.parent.iterdir())
    assert sorted(path.name for path in rig.path.parent.iterdir()) == [
        "requests.log", "requests.log.1", "requests.log.2",
    ]  # fmt: skip
    rig.apply(max_bytes=size, keep=0)
    await rig.write(record(12))
    assert rig.numbers() == [12]


async def _line(rig: Rig, first: Record) -> str:
    await rig.write(first)
    return rig.lines()[0]


@pytest.mark.parametrize("goes", [lambda path: path.rename(f"{path}.away"), os.unlink])
async def test_a_file_that_was_moved_away_is_begun_anew(rig: Rig, goes: Callable[[Path], object]) -> None:
    await rig.write(record(1))
    goes(rig.path)
    await rig.write(record(2))
    assert rig.numbers() == [2]


async def test_a_fault_is_told_once_counted_and_over_when_it_is_over(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.path.parent.write_text("a file where the directory should be")
    await rig.write(record(1))
    await rig.write(record(2), record(3))
    assert rig.log.dropped == 3
    assert [entry.levelname for entry in caplog.records if entry.name == "proxy.request_log"] == ["WARNING"]
    rig.path.parent.unlink()
    await rig.write(record(4))
    assert rig.numbers() == [4]
    assert len(rig.faults) == 2
    assert "File exists" in str(rig.faults[0])
    assert rig.faults[1] is None


async def test_a_full_disk_leaves_no_half_line(rig: Rig) -> None:
    await rig.write(record(1))
    file = rig.log._file
    assert file is not None

    class Full:
        """Takes half of what it is given, as a disk that fills up does."""

        def __getattr__(self, name: str) -> Any:
            return getattr(file, name)

        def write(self, data: bytes) -> int:
            assert file is not None
            return file.write(data[: len(data) // 2])

    rig.log._file = cast(BinaryIO, Full())
    await rig.write(record(2))
    assert rig.log.dropped == 1
    await rig.write(record(3))
    assert rig.numbers() == [1, 3]
    assert "No space left" in str(rig.faults[0])


async def test_what_a_slow_disk_cannot_take_is_dropped_and_counted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.request_log._MAX_WAITING", 2)
    rig.log.write([record(1), record(2)])
    rig.log.write([record(3)])
    assert rig.log.dropped == 1
    await until(lambda: rig.log._waiting == 0, "it is written")
    await rig.write(record(4))
    assert rig.numbers() == [1, 2, 4]
    assert rig.faults == ["the disk is too slow for it", None]


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/a/b?token=s3cret", "/a/b"),
        (b"/a#s3cret", "/a"),
        (b"http://user:s3cret@host/x/y?z", "/x/y"),
        (b"http://user:s3cret@host", "/"),
        (b"/to/http://kept", "/to/http://kept"),
        (b"*", "*"),
    ],
)
def test_the_path_that_is_shown_has_no_secret(target: bytes, path: str) -> None:
    assert path_of(target) == path


def test_a_recorder_never_grows_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.records._MAX_WAITING", 2)
    taken: list[int] = []
    recorder = Recorder([lambda records: taken.extend(record.ticket for record in records)])
    for number in (1, 2, 3):
        recorder.add(record(number))
    recorder.flush()
    recorder.add(record(4))
    recorder.flush()
    recorder.flush()
    assert (taken, recorder.dropped) == ([1, 2, 4], 1)


@pytest.mark.parametrize("name", ["requests.jsonl", "requests.csv"])
async def test_simulate_reads_its_files_as_they_are(name: str, tmp_path: Path) -> None:
    rig = Rig(tmp_path / name)
    rig.apply(max_bytes=300)
    await rig.write(record(3))
    await rig.write(record(2, run_secs=0.5, target=b'/a\n"b'))
    await rig.write(record(1, run_secs=None, node=None, outcome="not_sent"))
    await rig.log.stop()
    paths = sorted(tmp_path.iterdir())  # noqa: ASYNC240 - nothing else runs
    assert len(paths) > 1
    trace = load_trace(paths)
    assert list(trace) == [(0, 500), (1000, 2250)]
    assert trace.left_out == 1
