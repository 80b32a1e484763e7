"""The delivery promise, decision by decision."""

from __future__ import annotations

from itertools import product

import pytest

from proxy import resend
from proxy.resend import Policy


@pytest.mark.parametrize(
    ("policy", "cause"), [("not_sent", "connect"), ("idempotent", "connect"), ("never", None)]
)
def test_what_never_left_is_sent_again_unless_that_is_forbidden(policy: Policy, cause: str | None) -> None:
    assert resend.after_connect_failure(policy) == cause


@pytest.mark.parametrize(
    ("policy", "was_kept", "heard", "ran_secs", "cause"),
    [
        ("not_sent", True, False, 0.01, "stale_connection"),
        ("not_sent", True, False, 0.2, None),
        ("not_sent", True, True, 0.01, None),
        ("not_sent", False, False, 0.01, None),
        ("idempotent", True, False, 0.01, "stale_connection"),
        ("idempotent", True, False, 0.2, "idempotent"),
        ("idempotent", True, True, 0.01, "idempotent"),
        ("idempotent", False, False, 9.0, "idempotent"),
        ("never", True, False, 0.01, None),
    ],
)
def test_a_safe_request_that_broke(
    policy: Policy, was_kept: bool, heard: bool, ran_secs: float, cause: str | None
) -> None:
    for resends, expected in ((0, cause), (1, cause), (2, None)):
        again = resend.after_break(
            policy, is_safe=True, was_kept=was_kept, heard=heard, ran_secs=ran_secs, resends=resends
        )
        assert again == expected


def test_an_unsafe_request_that_was_sent_is_never_sent_again() -> None:
    policies: tuple[Policy, ...] = ("not_sent", "idempotent", "never")
    for policy, was_kept, heard in product(policies, (True, False), (True, False)):
        again = resend.after_break(
            policy, is_safe=False, was_kept=was_kept, heard=heard, ran_secs=0.0, resends=0
        )
        assert again is None
