"""Between rows and the words of `job.py`. Header fields are kept as they go over the wire, one line each:
order, repetitions and bytes are those of the message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from proxy.http.message import Field
from proxy.jobs.job import (
    Claim,
    Ending,
    Job,
    JobLease,
    Policy,
    State,
    StoredBody,
    StoredRequest,
    StoredResult,
    Submission,
)


class Row(Protocol):
    def __getitem__(self, key: str, /) -> Any: ...


def pack(fields: Sequence[Field]) -> bytes:
    """Raises ValueError for a field that would not come back as it is."""
    for name, value in fields:
        if b":" in name or any(end in part for part in (name, value) for end in (b"\r", b"\n")):
            raise ValueError(f"not a header field: {name!r}")
    return b"".join(b"%b: %b\r\n" % (name, value) for name, value in fields)


def unpack(packed: bytes) -> tuple[Field, ...]:
    lines = packed.split(b"\r\n")[:-1]
    return tuple((name, value) for name, _, value in (line.partition(b": ") for line in lines))


def text(value: str | None) -> str | None:
    """Raises ValueError for what cannot be stored as text in every database."""
    if value is not None and value != safe_text(value):
        raise ValueError("a text with characters that cannot be stored")
    return value


def safe_text(value: str | None) -> str | None:
    """Somebody else's words, with what cannot be stored replaced."""
    return None if value is None else value.replace("\0", "?").encode(errors="replace").decode()


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


def submitted(submission: Submission) -> dict[str, Any]:
    """Values of a new row, but for its body. Raises ValueError for what cannot be stored."""
    idempotency = submission.idempotency
    return {
        "policy": submission.policy.value,
        "method": submission.method,
        "target": submission.target,
        "request_fields": pack(submission.fields),
        "request_trailers": pack(submission.trailers),
        "request_id": text(submission.request_id),
        "client": text(submission.client),
        "idempotency_key": None if idempotency is None else text(idempotency.key),
        "fingerprint": None if idempotency is None else idempotency.fingerprint,
        "wait_limit_secs": submission.wait_limit_secs,
        "webhook_url": text(submission.webhook_url),
    }


def ended(ending: Ending) -> dict[str, Any]:
    """Values of how a job ends, but for its body. Raises ValueError for what cannot be stored."""
    result = ending.result
    return {
        "state": ending.state.value,
        "outcome": ending.outcome,
        "error": safe_text(ending.error),
        "result_status": None if result is None else result.status,
        "result_fields": None if result is None else pack(result.fields),
        "result_trailers": None if result is None else pack(result.trailers),
    }


def body_values(kind: str, body: StoredBody | None) -> dict[str, Any]:
    """`kind`: request or result."""
    return {
        f"{kind}_size": None if body is None else body.size,
        f"{kind}_data": None if body is None else body.data,
        f"{kind}_key": None if body is None else body.key,
    }


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
