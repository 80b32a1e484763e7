"""Nothing of an answer is lost or changes its place, whatever the client's pace and the room there is."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from proxy.http.backlog import Backlog
from proxy.http.spool import SpoolBudget


class SlowClient:
    def __init__(self) -> None:
        self.got = b""
        self.takes = 0  # writes until it is full

    def write(self, data: bytes) -> None:
        assert self.takes > 0
        assert data
        self.takes -= 1
        self.got += data

    def send_file(self, descriptor: int, offset: int, count: int) -> int:
        """Takes an odd part of what it is offered."""
        assert self.takes > 0
        sent = os.pread(descriptor, (count + 1) // 2, offset)
        self.got += sent
        return len(sent)

    @property
    def is_paused(self) -> bool:
        return self.takes == 0


@given(
    st.lists(st.one_of(st.binary(min_size=1, max_size=30), st.integers(0, 3)), max_size=30),
    st.integers(0, 20),
    st.integers(0, 60),
)
def test_order_and_bytes(steps: list[bytes | int], memory_bytes: int, max_bytes: int) -> None:
    """Steps: bytes come, or the client takes so many pieces."""
    budget = SpoolBudget(memory_bytes, max_bytes)
    backlog, client = Backlog(budget), SlowClient()
    given_bytes = b""
    for step in steps:
        if isinstance(step, bytes):
            backlog.add(step)
            given_bytes += step
            continue
        client.takes = step
        if backlog.drain(client.write, lambda: client.is_paused, client.send_file):
            assert client.got == given_bytes
    client.takes = 1000
    assert backlog.drain(client.write, lambda: client.is_paused)
    assert client.got == given_bytes
    assert budget.used == 0


def test_closed_with_all_it_holds() -> None:
    budget = SpoolBudget(1, 10)
    backlog = Backlog(budget)
    assert [backlog.add(b"x" * 8), backlog.add(b"y" * 8)] == [True, False]
    backlog.close()
    assert budget.used == 0
