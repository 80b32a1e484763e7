"""What is written down of each request at its end.

Always: a request that was answered or refused, whose client left, or whose node broke off has exactly one record. It
is made where the end is counted, so the records and `fifo_proxy_requests_total` tell the same. The hot path appends to
a list; `flush` hands it to the sinks between requests. What they cannot take in time is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.clock import Clock

_MAX_WAITING = 100_000  # records; more than a second's worth of requests means that nobody takes them


@dataclass(slots=True)
class Record:
    """One request. `joined_at` and `ended_at`: monotonic seconds.

    `ticket`: its place in the order of joining, 0 if it never joined the line. `run_secs`: from its sending to the
    end of its run, None without one. `status`: what the client was sent, or the node answered to nobody; 0: nothing.
    `outcome`: answered, not_sent, unknown, client_left. Bytes are those of bodies.
    """

    joined_at: float
    ended_at: float
    request_id: bytes
    method: bytes
    target: bytes
    client: str
    status: int
    outcome: str
    ticket: int = 0
    wait_secs: float = 0.0
    run_secs: float | None = None
    node: str | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    resends: int = 0
    job: str | None = None
    trace: object = None  # where traces are made: the request's place in one

    @property
    def path(self) -> str:
        return path_of(self.target)

    @property
    def query(self) -> str:
        return self.target.partition(b"?")[2].decode("latin-1")


def path_of(target: bytes) -> str:
    """The path alone, to be shown: no query and no fragment, and of an absolute target no user and password."""
    path = target.partition(b"?")[0].partition(b"#")[0]
    scheme, found, rest = path.partition(b"://")
    if found and b"/" not in scheme:
        path = b"/" + rest.partition(b"/")[2]
    return path.decode("latin-1")


Sink = Callable[[Sequence[Record]], None]


class Recorder:
    """`sinks` get the records in the order of the ends; they must not block."""

    def __init__(self, sinks: Iterable[Sink] = ()) -> None:
        self.sinks = list(sinks)
        self.dropped = 0
        self._records: list[Record] = []

    def add(self, record: Record) -> None:
        if len(self._records) < _MAX_WAITING:
            self._records.append(record)
        else:
            self.dropped += 1

    def flush(self) -> None:
        if not self._records:
            return
        records, self._records = self._records, []
        for sink in self.sinks:
            sink(records)


FIELDS = (
    "arrival", "request_id", "ticket", "method", "path", "client", "wait_secs", "run_secs", "node", "status",
    "outcome", "bytes_in", "bytes_out", "resends", "job",
)  # fmt: skip


def fields_of(record: Record, clock: Clock) -> dict[str, Any]:
    """The record as people and machines read it, keys as in `FIELDS`. Without its query."""
    run = record.run_secs
    return {
        "arrival": clock.utc_exact(record.joined_at),
        "request_id": record.request_id.decode("latin-1"),
        "ticket": record.ticket,
        "method": record.method.decode("latin-1"),
        "path": record.path,
        "client": record.client,
        "wait_secs": round(record.wait_secs, 6),
        "run_secs": None if run is None else round(run, 6),
        "node": record.node,
        "status": record.status or None,
        "outcome": record.outcome,
        "bytes_in": record.bytes_in,
        "bytes_out": record.bytes_out,
        "resends": record.resends,
        "job": record.job,
    }
