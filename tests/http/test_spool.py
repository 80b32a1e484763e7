"""Bodies in memory and on disk, and the one budget they share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proxy.errors import SpoolFull
from proxy.http.spool import Spool, SpoolBudget


@pytest.mark.parametrize(
    "pieces", [[b""], [b"one"], [b"a" * 6, b"b" * 4], [b"a" * 11], [b"a" * 9, b"b" * 9, b"c"]]
)
def test_reads_what_was_appended(pieces: list[bytes]) -> None:
    budget = SpoolBudget(10, 1000)
    spool = Spool(budget)
    for piece in pieces:
        spool.append(piece)
    whole = b"".join(pieces)
    assert spool.size == len(whole)
    assert spool.is_on_disk is (len(whole) > 10)
    assert budget.used == (len(whole) if len(whole) > 10 else 0)
    for length in (1, 4, 1000):
        read = b"".join(spool.read(at, length) for at in range(0, len(whole), length))
        assert read == whole
    assert spool.read(len(whole), 5) == b""
    assert spool.read(0, len(whole)) == whole  # as often as asked
    spool.close()
    spool.close()
    assert (spool.size, budget.used) == (0, 0)


def test_the_pieces_themselves_are_not_changed() -> None:
    spool = Spool(SpoolBudget(10, 1000))
    first = b"abc"
    spool.append(first)
    spool.append(b"def")
    assert (first, spool.read(0, 10)) == (b"abc", b"abcdef")


def test_no_room_changes_nothing() -> None:
    budget = SpoolBudget(10, 25)
    one, two = Spool(budget), Spool(budget)
    one.append(b"x" * 20)
    two.append(b"y" * 8)
    with pytest.raises(SpoolFull):
        two.append(b"y" * 8)
    assert (two.size, two.read(0, 99), two.is_on_disk) == (8, b"y" * 8, False)
    one.close()
    two.append(b"z" * 8)
    assert two.read(0, 99) == b"y" * 8 + b"z" * 8
    two.close()
    assert budget.used == 0


def test_cleared_spool_is_as_new() -> None:
    budget = SpoolBudget(10, 100)
    spool = Spool(budget)
    spool.append(b"x" * 20)
    spool.clear()
    spool.append(b"y")
    assert (spool.is_on_disk, spool.read(0, 9), budget.used) == (False, b"y", 0)


def test_nothing_is_left_in_the_directory(tmp_path: Path) -> None:
    """A crash leaves nothing behind: the file has no name even while it is in use."""
    spool = Spool(SpoolBudget(1, 100, str(tmp_path)))
    spool.append(b"xyz")
    assert spool.is_on_disk
    assert os.listdir(tmp_path) == []
    spool.close()


def test_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = SpoolBudget(1, 100, str(tmp_path / "missing"))
    spool = Spool(budget)
    with pytest.raises(SpoolFull, match="No such file"):
        spool.append(b"xyz")
    budget.directory = str(tmp_path)

    def no_space(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", no_space)
        with pytest.raises(SpoolFull, match="No space left on device"):
            spool.append(b"xyz")
    assert (spool.size, budget.used) == (0, 0)
    spool.append(b"abc")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", no_space)
        with pytest.raises(SpoolFull):
            spool.append(b"def")
    assert (spool.read(0, 9), budget.used) == (b"abc", 3)
    spool.close()


def test_short_writes_are_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:3], at))
    spool = Spool(SpoolBudget(1, 100))
    spool.append(b"0123456789")
    assert spool.read(0, 99) == b"0123456789"
    spool.close()
