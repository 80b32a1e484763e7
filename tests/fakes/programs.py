"""Programs of this machine that a test needs. Where one is missing the test skips and says why; with `CI=true` that
is a failure."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def lacking(reason: str) -> NoReturn:
    """A program is missing: skip, but never on CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}, and CI must not skip it")
    pytest.skip(reason)


def program(name: str) -> str:
    """The path of a program of this machine."""
    found = shutil.which(name)
    if found is None:
        lacking(f"{name} is not installed")
    return found
