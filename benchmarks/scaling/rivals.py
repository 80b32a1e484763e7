"""Other autoscalers' rules restated from their documentation and sources, to run in our simulator.

What does not concern the rule is ours, to be fair: nodes that are starting or busy are never stopped, the longest
idle goes first, the floor and the ceiling are kept. Each is to be checked every second.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from math import ceil

from proxy.scaling.rules import Action, Down, Seen, Up

CHECK_INTERVAL_MS = 1000
_ROUNDING = 1e-9


def _resize(
    seen: Seen, wanted: int, least: int, most: int, reason: str, used_before: float
) -> tuple[Action, ...]:
    """To `wanted` nodes within `least` and `most`; down by nodes last used at or before `used_before` only."""
    wanted, paid = min(max(wanted, least), most), len(seen.nodes)
    if wanted > paid:
        return (Up(wanted - paid, reason, "count"),)
    idle = sorted(
        (node.last_used_at, node.number)
        for node in seen.nodes
        if node.state == "idle" and node.last_used_at is not None and node.last_used_at <= used_before
    )
    ready = sum(node.state in ("idle", "busy") for node in seen.nodes)
    numbers = tuple(number for _, number in idle[: max(0, min(paid - wanted, ready - least))])
    return (Down(numbers, reason, "idle"),) if numbers else ()


class Knative:
    """Knative Serving's autoscaler (pkg/autoscaler/scaling/autoscaler.go) with the defaults of its config map: a
    container concurrency of 1 used to 70 %, a stable window of 60 s, a panic window of 6 s, panic from 200 % of what
    is ready, at most halved at once, a tick of 2 s. Concurrency, of what waits and what runs, is sampled each second,
    as it scrapes. Scale to zero and its grace need no rule: the floor is 1."""

    STABLE_SECS, PANIC_SECS, TICK_SECS = 60, 6, 2
    TARGET, PANIC_THRESHOLD, SCALE_DOWN_RATE = 0.7, 2.0, 2

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most
        self._samples: deque[int] = deque(maxlen=self.STABLE_SECS)
        self._sampled_at = -1
        self._panic_since: int | None = None
        self._panic_nodes = 0

    def decide(self, seen: Seen, now: int) -> tuple[Action, ...]:
        second = now // 1000
        self._sample(seen.queue_length + seen.running, second)
        if second % self.TICK_SECS:
            return ()
        ready = max(1, sum(node.state in ("idle", "busy") for node in seen.nodes))
        wanted = ceil(self._average(self.STABLE_SECS) / self.TARGET - _ROUNDING)
        panic = ceil(self._average(self.PANIC_SECS) / self.TARGET - _ROUNDING)
        if panic / ready >= self.PANIC_THRESHOLD:
            self._panic_since = second
        elif self._panic_since is not None and second - self._panic_since > self.STABLE_SECS:
            self._panic_since, self._panic_nodes = None, 0
        if self._panic_since is not None:
            self._panic_nodes = wanted = max(wanted, panic, self._panic_nodes)
        wanted = max(wanted, ready // self.SCALE_DOWN_RATE)
        reason = f"concurrency {self._average(self.STABLE_SECS):.2f} wants {wanted} nodes"
        return _resize(seen, wanted, self._least, self._most, reason, now)

    def next_change(self, seen: Seen, now: int) -> float | None:
        """Every second while the windows or the nodes are not yet what the present concurrency leads to."""
        is_settled = self._panic_since is None and len(set(self._samples)) == 1
        wanted = ceil((seen.queue_length + seen.running) / self.TARGET - _ROUNDING)
        wanted = min(max(wanted, self._least), self._most)
        return None if is_settled and wanted == len(seen.nodes) else now

    def _sample(self, concurrency: int, second: int) -> None:
        """Seconds that were skipped were as the last one: a change is followed by a check within the second."""
        before = self._samples[-1] if self._samples else 0
        skipped = min(second - self._sampled_at - 1, self.STABLE_SECS)
        self._samples.extend([before] * skipped)
        if second > self._sampled_at:
            self._samples.append(concurrency)
            self._sampled_at = second

    def _average(self, secs: int) -> float:
        count = min(secs, len(self._samples))
        return sum(islice(reversed(self._samples), count)) / count


class QueueDelay:
    """Runpod's "queue delay": a request that has waited for longer than the delay, 4 s by default, adds a worker; one
    idle for 5 s goes. Here each waiting one adds one as soon as the oldest is late, less those that are starting."""

    def __init__(self, least: int, most: int, delay_secs: float = 4, idle_secs: float = 5) -> None:
        self._least, self._most = least, most
        self._delay_ms, self._idle_ms = delay_secs * 1000, idle_secs * 1000

    def decide(self, seen: Seen, now: int) -> tuple[Action, ...]:
        paid = len(seen.nodes)
        if not seen.queue_length:
            reason = f"idle {self._idle_ms / 1000:g} s"
            return _resize(seen, 0, self._least, self._most, reason, now - self._idle_ms)
        if seen.oldest_wait <= self._delay_ms:
            return ()
        starting = sum(node.state == "starting" for node in seen.nodes)
        reason = f"{seen.queue_length} waiting, the oldest for {seen.oldest_wait / 1000:.1f} s"
        more = max(0, seen.queue_length - starting)
        return _resize(seen, paid + more, self._least, self._most, reason, now)

    def next_change(self, seen: Seen, now: int) -> float | None:
        if seen.queue_length:
            return max(now, now - seen.oldest_wait + self._delay_ms)
        return _first_idle(seen, now, self._idle_ms)


class RequestCount:
    """Runpod's "request count": `ceil((requests in queue + in progress) / scaler value)` workers, the value 4 by
    default; one idle for 5 s goes when it is not wanted."""

    def __init__(self, least: int, most: int, scaler_value: int = 4, idle_secs: float = 5) -> None:
        self._least, self._most = least, most
        self._scaler_value, self._idle_ms = scaler_value, idle_secs * 1000

    def decide(self, seen: Seen, now: int) -> tuple[Action, ...]:
        requests = seen.queue_length + seen.running
        wanted = -(-requests // self._scaler_value)
        return _resize(
            seen,
            wanted,
            self._least,
            self._most,
            f"{requests} waiting or running want {wanted} nodes",
            now - self._idle_ms,
        )

    def next_change(self, seen: Seen, now: int) -> float | None:
        return _first_idle(seen, now, self._idle_ms)


def _first_idle(seen: Seen, now: int, idle_ms: float) -> float | None:
    instants = (node.last_used_at + idle_ms for node in seen.nodes if node.last_used_at is not None)
    return min((instant for instant in instants if instant >= now), default=None)
