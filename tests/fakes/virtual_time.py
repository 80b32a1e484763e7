"""Time that passes only when nothing else can happen: hours of timers in milliseconds, always in one order.

`asyncio.sleep`, `asyncio.timeout` and `call_later` all go by the event loop's clock, so code under test needs
no special sleep. Whatever the event loop is told of an exception nobody handled fails the test.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

P = ParamSpec("P")


class _Selector(selectors.SelectSelector):
    """Instead of waiting it moves the clock to where the next timer is due."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing runs and no timer is set: the test would wait for ever"
            self.loop.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at 1000.0: a monotonic clock has no zero that means anything."""

    def __init__(self) -> None:
        self.now = 1000.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)
        self.faults: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.faults.append(context))

    def time(self) -> float:
        return self.now


def virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test in virtual time. A test that expects faults clears `VirtualLoop.faults` itself."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))
            loop = runner.get_loop()
            assert isinstance(loop, VirtualLoop)
            assert not loop.faults, loop.faults

    return run
