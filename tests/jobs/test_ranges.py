"""Which part of a stored answer is wanted."""

from __future__ import annotations

import pytest

from proxy.jobs.ranges import range_holds, wanted_range


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (None, None),
        (b"bytes=0-0", (0, 1)),
        (b"bytes=0-", (0, 10)),
        (b"Bytes = 3-5 ", (3, 6)),
        (b"bytes=9-99", (9, 10)),
        (b"bytes=-3", (7, 10)),
        (b"bytes=-99", (0, 10)),
        (b"bytes=5-3", None),  # malformed: all of it
        (b"bytes=-", None),
        (b"bytes=0-1,3-4", None),
        (b"lines=0-1", None),
        (b"bytes=" + b"9" * 30 + b"-", None),
    ],
)
def test_parts_of_ten_bytes(value: bytes | None, part: tuple[int, int] | None) -> None:
    assert wanted_range(value, 10) == part


@pytest.mark.parametrize("value", [b"bytes=10-", b"bytes=10-20", b"bytes=-0"])
def test_outside(value: bytes) -> None:
    with pytest.raises(ValueError):
        wanted_range(value, 10)


def test_nothing_has_no_part() -> None:
    with pytest.raises(ValueError):
        wanted_range(b"bytes=0-", 0)


def test_only_of_the_answer_that_is_meant() -> None:
    assert range_holds(None, None, None)
    assert range_holds(b'"a"', b'"a"', None)
    assert not range_holds(b'"b"', b'"a"', None)
    assert not range_holds(b'W/"a"', b'W/"a"', None)  # a weak one names no bytes
    assert range_holds(b"Mon, 01 Jan 2024 00:00:00 GMT", None, b"Mon, 01 Jan 2024 00:00:00 GMT")
    assert not range_holds(b"Mon, 01 Jan 2024 00:00:00 GMT", None, None)
