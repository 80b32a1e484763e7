"""How state machines that hold promises are run: more than 10,000 steps, the same ones each time."""

from __future__ import annotations

from unittest import TestCase

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine


def hold(machine: type[RuleBasedStateMachine]) -> type[TestCase]:
    """The test of a machine, for pytest to find."""
    test: type[TestCase] = machine.TestCase
    test.settings = settings(  # type: ignore[attr-defined]
        max_examples=250,
        stateful_step_count=60,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    return test
