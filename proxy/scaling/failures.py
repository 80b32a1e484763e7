"""What goes wrong with simulated nodes: starts that fail and nodes that die, by seeded chance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Failures:
    """`fails_to_start`: whether this start never gets ready; `life_ms`: from ready to death, None for ever;
    `jitter`: in [0, 1), of the back-off after a failed start. The proxy gives a starting node up after
    `start_timeout_ms`, a dead one after `unready_destroy_ms`; both are paid for until then."""

    fails_to_start: Callable[[], bool] = lambda: False
    life_ms: Callable[[], int | None] = lambda: None
    jitter: Callable[[], float] = lambda: 0.0
    start_timeout_ms: int = 900_000
    unready_destroy_ms: int = 300_000


def failures_by_chance(
    *,
    failed_start_share: float,
    deaths_per_node_hour: float,
    seed: int,
    start_timeout_secs: float,
    unready_destroy_secs: float,
) -> Failures:
    """Each start fails with that share's chance, and a ready node may die at any moment (exponential lives). Each
    kind of chance has its own sequence, so that changing one does not shuffle the others."""
    starts, lives, waits = (Random(f"{seed} {kind}") for kind in ("start", "life", "back-off"))
    rate = deaths_per_node_hour / _HOUR_MS

    def life_ms() -> int | None:
        return max(1, round(lives.expovariate(rate))) if rate else None

    return Failures(
        fails_to_start=lambda: starts.random() < failed_start_share,
        life_ms=life_ms,
        jitter=waits.random,
        start_timeout_ms=round(start_timeout_secs * 1000),
        unready_destroy_ms=round(unready_destroy_secs * 1000),
    )
