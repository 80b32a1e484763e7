"""Real sockets run on uvloop, as the proxy does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes import reader
from tests.flows.conftest import _surroundings as _surroundings
from tests.flows.conftest import probed_soon as probed_soon
from tests.flows.conftest import pytest_asyncio_loop_factories as pytest_asyncio_loop_factories


@pytest.fixture(autouse=True)
def _no_bodies_left() -> Iterator[None]:
    yield
    reader.drop_bodies()
