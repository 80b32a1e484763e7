"""A few thousand inputs for every change; the long run is `python -m tests.fuzz`."""

from __future__ import annotations

import pytest

from tests.fuzz.__main__ import run_batch


@pytest.mark.parametrize("first", [0, 50_000])
def test_nothing_fails(first: int) -> None:
    assert run_batch(first, 4000) == []
