"""Round numbers for axes, and durations as people write them."""

from __future__ import annotations

from math import ceil, floor, log10

from proxy.scaling.series import round_step

_TICKS = 6
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def round_ticks(low: float, high: float, *, are_whole: bool = False) -> list[float]:
    """About six round numbers from at or below `low` to at or above `high`."""
    span = high - low or abs(high) or 1.0
    power = 10.0 ** floor(log10(span / _TICKS))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power * _TICKS >= span)
    if are_whole:
        step = max(1.0, step)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def time_ticks(span_secs: float) -> list[tuple[float, str]]:
    """(instant in seconds, its label) of a few round instants within a span that begins at 0, none at its edge."""
    step = round_step(span_secs / 8)
    unit, name = next(pair for pair in _UNITS if step % pair[0] == 0)
    return [(at, f"{at // unit} {name}") for at in range(step, int(0.97 * span_secs) + 1, step)]


def duration(secs: float) -> str:
    """`90 s` as `1 min 30 s`, `93600 s` as `1 d 2 h`: the two largest units."""
    if secs < 60:
        return f"{secs:g} s"
    rest, parts = round(secs), []
    for unit, name in _UNITS:
        if rest >= unit:
            parts.append(f"{rest // unit} {name}")
            rest %= unit
    return " ".join(parts[:2])


def clock(ms: int) -> str:
    """An instant of a run: `1 d 02:03:04`, without the day on the first."""
    days, secs = divmod(ms // 1000, 86_400)
    time = f"{secs // 3600:02}:{secs // 60 % 60:02}:{secs % 60:02}"
    return f"{days} d {time}" if days else time
