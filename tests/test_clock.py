from __future__ import annotations

from proxy.clock import Clock, rfc3339


class Pair:
    def __init__(self) -> None:
        self.monotonic = 10.0
        self.wall = 1_800_000_000.0


def make() -> tuple[Pair, Clock]:
    pair = Pair()
    return pair, Clock(lambda: pair.monotonic, lambda: pair.wall)


def test_unix_seconds_are_written_as_utc_with_milliseconds() -> None:
    assert rfc3339(0) == "1970-01-01T00:00:00.000Z"
    assert rfc3339(1_800_000_000.25) == "2027-01-15T08:00:00.250Z"


def test_a_monotonic_instant_is_told_in_utc_and_none_stays_none() -> None:
    _, clock = make()
    assert clock.utc(10.0) == "2027-01-15T08:00:00.000Z"
    assert clock.utc(4.5) == "2027-01-15T07:59:54.500Z"
    assert clock.utc(None) is None


def test_a_wall_clock_that_is_slewed_does_not_change_what_was_told() -> None:
    pair, clock = make()
    pair.monotonic, pair.wall = 20.0, 1_800_000_010.4
    assert clock.now() == 20.0
    assert clock.utc(10.0) == "2027-01-15T08:00:00.000Z"


def test_a_wall_clock_that_is_set_is_followed() -> None:
    pair, clock = make()
    pair.monotonic, pair.wall = 20.0, 1_800_000_013.0
    clock.now()
    assert clock.utc(20.0) == "2027-01-15T08:00:13.000Z"


def test_the_machines_clocks_are_the_default() -> None:
    clock = Clock()
    assert clock.now() <= clock.now()
    assert clock.utc(clock.now()).startswith("20")
