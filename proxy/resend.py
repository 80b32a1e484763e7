"""When a request is sent again. Pure, and the whole of the delivery promise: everything else is answered `unknown`."""

from __future__ import annotations

from typing import Literal

Policy = Literal["not_sent", "idempotent", "never"]
Cause = Literal["connect", "stale_connection", "idempotent", "job_retry"]  # the last: `jobs.run` decides

_STALE_SECS = (
    0.1  # a connection that was being closed as we wrote tells so at once; later than this it was at work
)
_MOST = 2  # a request that breaks every node it meets must not meet them all


def after_connect_failure(policy: Policy) -> Cause | None:
    """No byte of it has left: it can be sent again as often as it takes."""
    return None if policy == "never" else "connect"


def after_break(
    policy: Policy, *, is_safe: bool, was_kept: bool, heard: bool, ran_secs: float, resends: int
) -> Cause | None:
    """It was sent and the link broke before the response's head.

    `was_kept`: the link had carried a response before; `heard`: something came back; `ran_secs`: since it was sent. A
    kept link that dies at once and without a word was being closed as we wrote, so a safe method (RFC 9110, 9.2.1)
    goes again even under `not_sent` (RFC 9112, 9.3.1); it changes nothing at the node if it ran after all.
    """
    if policy == "never" or not is_safe or resends >= _MOST:
        return None
    if was_kept and not heard and ran_secs <= _STALE_SECS:
        return "stale_connection"
    return "idempotent" if policy == "idempotent" else None
