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
    ("policy", "was_kept", "heard", "cause"),
    [
        ("not_sent", True, False, "stale_connection"),
        ("not_sent", True, True, None),
        ("not_sent", False, False, None),
        ("idempotent", True, False, "stale_connection"),
        ("idempotent", True, True, "idempotent"),
        ("idempotent", False, False, "idempotent"),
        ("never", True, False, None),
    ],
)
def test_a_safe_request_that_broke(policy: Policy, was_kept: bool, heard: bool, cause: str | None) -> None:
    again = resend.after_break(policy, is_safe=True, was_kept=was_kept, heard=heard, resends=0)
    assert again == cause
    assert resend.after_break(policy, is_safe=True, was_kept=was_kept, heard=heard, resends=1) == cause
    assert resend.after_break(policy, is_safe=True, was_kept=was_kept, heard=heard, resends=2) is None


def test_an_unsafe_request_that_was_sent_is_never_sent_again() -> None:
    policies: tuple[Policy, ...] = ("not_sent", "idempotent", "never")
    for policy, was_kept, heard in product(policies, (True, False), (True, False)):
        assert resend.after_break(policy, is_safe=False, was_kept=was_kept, heard=heard, resends=0) is None
