"""Between rows and the words of `job.py`. Header fields are kept as they go over the wire, one line each:
order, repetitions and bytes are those of the message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from proxy.http.message import Field
from proxy.jobs.job import (
    Claim,
    Job,
    JobLease,
    Policy,
    State,
    StoredBody,
    StoredRequest,
    StoredResult,
)


class Row(Protocol):
    def __getitem__(self, key: str, /) -> Any: ...


def pack(fields: Sequence[Field]) -> bytes:
    """Raises ValueError for a field that would not come back as it is."""
    for name, value in fields:
        if b":" in name or b"\n" in name or b"\r" in name or b"\r\n" in value:
            raise ValueError(f"not a header field: {name!r}")
    return b"".join(b"%b: %b\r\n" % (name, value) for name, value in fields)


def unpack(packed: bytes) -> tuple[Field, ...]:
    lines = packed.split(b"\r\n")[:-1]
    return tuple((name, value) for name, _, value in (line.partition(b": ") for line in lines))


def job(row: Row, shown: Callable[[float], float]) -> Job:
    """`shown` turns the store's time into Unix time."""

    def time(column: str) -> float | None:
        at = row[column]
        return None if at is None else shown(at)

    return Job(
        id=row["id"],
        position=row["position"],
        state=State(row["state"]),
        policy=Policy(row["policy"]),
        method=row["method"],
        target=row["target"],
        request_id=row["request_id"],
        client=row["client"],
        idempotency_key=row["idempotency_key"],
        has_webhook=row["webhook_url"] is not None,
        created_at=shown(row["created_at"]),
        sent_at=time("sent_at"),
        finished_at=time("finished_at"),
        wait_ends_at=time("wait_ends_at"),
        sends=row["sends"],
        node=row["node"],
        outcome=row["outcome"],
        error=row["error"],
        owner=row["owner"],
        request_bytes=row["request_size"],
        result_status=row["result_status"],
        result_bytes=row["result_size"],
        is_purged=row["purged_at"] is not None,
    )


def claim(row: Row, shown: Callable[[float], float]) -> Claim:
    lease = JobLease(row["id"], row["owner"], row["lease"])
    return Claim(lease, job(row, shown), request(row))


def request(row: Row) -> StoredRequest:
    return StoredRequest(
        method=row["method"],
        target=row["target"],
        fields=unpack(row["request_fields"]),
        body=StoredBody(row["request_size"], row["request_data"], row["request_key"]),
        trailers=unpack(row["request_trailers"]),
    )


def result(row: Row) -> StoredResult:
    return StoredResult(
        status=row["result_status"],
        fields=unpack(row["result_fields"]),
        body=StoredBody(row["result_size"], row["result_data"], row["result_key"]),
        trailers=unpack(row["result_trailers"]),
    )
