"""Round numbers and durations."""

from __future__ import annotations

import pytest

from proxy.report.axes import clock, duration, round_ticks, time_ticks


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 103, [0, 20, 40, 60, 80, 100, 120]),
        (6.8, 8.9, [6.5, 7, 7.5, 8, 8.5, 9]),
        (0, 0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (7, 7, [6, 8]),
    ],
)
def test_ticks_are_round_and_hold_all_values(low: float, high: float, ticks: list[float]) -> None:
    found = round_ticks(low, high)
    assert found[0] <= low
    assert high <= found[-1]
    assert len(found) <= 8
    if (low, high) in ((0, 103), (6.8, 8.9)):
        assert found == pytest.approx(ticks)


def test_counts_have_whole_ticks() -> None:
    assert round_ticks(0, 1.2, are_whole=True) == [0, 1, 2]
    assert round_ticks(0, 0, are_whole=True) == [0, 1]


def test_instants() -> None:
    assert time_ticks(4 * 3600) == [(at * 1800, f"{at * 30} min") for at in range(1, 8)]
    assert [text for _, text in time_ticks(7 * 86_400)] == ["1 d", "2 d", "3 d", "4 d", "5 d", "6 d"]
    assert [duration(secs) for secs in (0.5, 59, 90, 3600, 93_784)] == [
        "0.5 s",
        "59 s",
        "1 min 30 s",
        "1 h",
        "1 d 2 h",
    ]
    assert [clock(ms) for ms in (61_500, 93_784_000)] == ["00:01:01", "1 d 02:03:04"]
