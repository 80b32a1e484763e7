"""How a job ends."""

from __future__ import annotations

import pytest

from proxy.errors import (
    NodeBroke,
    NodeUnreachable,
    RemovedByOperator,
    RequestError,
    RunTimeout,
    ShuttingDown,
    SpoolFull,
    WaitedTooLong,
)
from proxy.jobs.endings import after_answer, after_error
from proxy.jobs.job import Policy, State


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (200, State.SUCCEEDED),
        (304, State.SUCCEEDED),
        (399, State.SUCCEEDED),
        (400, State.FAILED),
        (503, State.FAILED),
    ],
)
def test_by_the_nodes_answer(status: int, state: State) -> None:
    assert after_answer(status) is state


def unknown(error: RequestError) -> RequestError:
    error.outcome = "unknown"
    return error


@pytest.mark.parametrize(
    ("error", "sends", "once", "retry"),
    [
        (WaitedTooLong(""), 0, State.EXPIRED, State.EXPIRED),
        (RemovedByOperator(""), 0, State.CANCELLED, State.CANCELLED),
        (NodeUnreachable(""), 0, State.FAILED, State.FAILED),
        (ShuttingDown(""), 0, State.QUEUED, State.QUEUED),
        (unknown(ShuttingDown("")), 1, State.UNKNOWN, State.QUEUED),
        (unknown(ShuttingDown("")), 2, State.UNKNOWN, State.FAILED),
        (NodeBroke(""), 1, State.UNKNOWN, State.QUEUED),
        (NodeBroke(""), 2, State.UNKNOWN, State.FAILED),
        (RunTimeout(""), 2, State.UNKNOWN, State.FAILED),
        (unknown(SpoolFull("")), 1, State.FAILED, State.FAILED),
    ],
)
def test_by_an_error_of_ours(error: RequestError, sends: int, once: State, retry: State) -> None:
    assert after_error(error, Policy.ONCE, sends) is once
    assert after_error(error, Policy.RETRY, sends) is retry
