"""Real sockets run on uvloop, as the proxy does."""

from __future__ import annotations

from tests.flows.conftest import _surroundings as _surroundings
from tests.flows.conftest import probed_soon as probed_soon
from tests.flows.conftest import pytest_asyncio_loop_factories as pytest_asyncio_loop_factories
