"""A job as JSON: for its client under `jobs_path`, and for the operator. Pure."""

from __future__ import annotations

from typing import Any

from proxy.clock import rfc3339
from proxy.jobs.job import Job, State
from proxy.records import path_of


def document(job: Job, path: str, place: int | None, estimate_secs: int | None) -> dict[str, Any]:
    """What a client may know. `place`: in the line, from 1; `estimate_secs`: until its run may begin. Times RFC 3339
    UTC."""
    where = path + job.id
    return {
        "id": job.id,
        "state": job.state.value,
        "place": place,
        "estimate_secs": estimate_secs,
        "created_at": rfc3339(job.created_at),
        "started_at": _utc(job.sent_at),
        "finished_at": _utc(job.finished_at),
        "attempts": job.sends,
        "policy": job.policy.value,
        "outcome": job.outcome,
        "error": job.error,
        "request_id": job.request_id,
        "result": _result(job, where),
        "links": {"self": where, "result": f"{where}/result", "events": f"{where}/events"},
    }


def admin_document(job: Job) -> dict[str, Any]:
    """What an operator sees, in lists. Without the query, which may hold secrets."""
    return {
        "id": job.id,
        "state": job.state.value,
        "method": job.method.decode("latin-1"),
        "path": path_of(job.target),
        "client": job.client,
        "request_id": job.request_id,
        "created_at": rfc3339(job.created_at),
        "started_at": _utc(job.sent_at),
        "finished_at": _utc(job.finished_at),
        "attempts": job.sends,
        "policy": job.policy.value,
        "node": job.node,
        "owner": job.owner,
        "outcome": job.outcome,
        "error": job.error,
        "status": job.result_status,
        "bytes_in": job.request_bytes,
        "bytes_out": job.result_bytes,
    }


def why_no_result(job: Job) -> str:
    """Of a job whose `result` there is not."""
    if not job.state.is_final:
        return f"the job is {job.state.value}"
    cause = f": {job.error}" if job.error else ""
    told = {
        State.CANCELLED: "the job was cancelled before it ran",
        State.EXPIRED: "the job waited too long and never ran",
        State.UNKNOWN: "the job may have run, and its answer is lost",
    }.get(job.state, "the job has no result")
    return told + cause


def _result(job: Job, where: str) -> dict[str, Any] | None:
    if job.result_status is None or job.is_purged:
        return None
    return {"status": job.result_status, "bytes": job.result_bytes, "url": f"{where}/result"}


def _utc(at: float | None) -> str | None:
    return None if at is None else rfc3339(at)
