"""How a job ends: from what came of its run to its final state. Pure."""

from __future__ import annotations

from proxy.errors import RemovedByOperator, RequestError, ShuttingDown, SpoolFull, WaitedTooLong
from proxy.jobs.job import Policy, State, after_lost_run

_REFUSED_FROM = 400  # a node's answer that says that the job was not done


def after_answer(status: int) -> State:
    """The node has answered so."""
    return State.SUCCEEDED if status < _REFUSED_FROM else State.FAILED


def after_error(error: RequestError, policy: Policy, sends: int) -> State:
    """An answer of ours ended it. `sends`: runs so far, a lost one included; QUEUED: it goes back to its place."""
    if isinstance(error, WaitedTooLong):
        return State.EXPIRED
    if isinstance(error, RemovedByOperator):
        return State.CANCELLED
    if error.outcome == "not_sent":
        return State.QUEUED if isinstance(error, ShuttingDown) else State.FAILED
    if isinstance(error, SpoolFull):  # it ran to its end; what is lost is its answer
        return State.FAILED
    return after_lost_run(policy, sends)
