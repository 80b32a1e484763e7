"""Group commit: calls that come while a transaction is under way share the next one.

An item is waiting -> taken -> over; items of one group are taken in their order, never two with the same id
at once. Of an item that is given up while it waits it is known that it was not written; of one that was
taken, nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from proxy.errors import StoreUnavailable
from proxy.jobs.rows import Row
from proxy.tasks import Tasks

_MOST_AT_ONCE = 256


class _Item:
    __slots__ = ("future", "is_taken", "values")

    def __init__(self, values: dict[str, Any], future: asyncio.Future[Sequence[Row]]) -> None:
        self.values = values
        self.future = future
        self.is_taken = False


class GroupCommit:
    """`commit(many)` runs one statement for each of these values in one transaction and returns all rows,
    each with its `id`; it raises `StoreUnavailable`."""

    def __init__(
        self, commit: Callable[[Sequence[dict[str, Any]]], Awaitable[Sequence[Row]]], tasks: Tasks
    ) -> None:
        self._commit = commit
        self._tasks = tasks
        self._waiting: list[_Item] = []
        self._task: asyncio.Task[None] | None = None  # while anything waits or is being committed

    async def add(self, values: dict[str, Any], timeout_secs: float) -> Sequence[Row]:
        """The rows of this id, once they are durable. Raises `StoreUnavailable`."""
        item = _Item(values, asyncio.get_running_loop().create_future())
        self._waiting.append(item)
        if self._task is None:
            self._task = self._tasks.spawn(self._run(), "jobs: group commit")
        try:
            async with asyncio.timeout(timeout_secs):
                return await item.future
        except TimeoutError:
            error = StoreUnavailable(f"the jobs' database did not answer within {timeout_secs:g} s")
            if item.is_taken:
                error.outcome = "unknown"
            raise error from None

    async def _run(self) -> None:
        try:
            while items := self._take():
                await self._commit_all(items)
        finally:
            self._task = None

    async def finish(self) -> None:
        """Return when nothing waits any longer."""
        if self._task is not None:
            await asyncio.wait({self._task})

    def _take(self) -> list[_Item]:
        taken: dict[str, _Item] = {}
        left = []
        for item in self._waiting:
            if item.future.done():
                continue  # given up
            if len(taken) < _MOST_AT_ONCE and item.values["id"] not in taken:
                item.is_taken = True
                taken[item.values["id"]] = item
            else:
                left.append(item)
        self._waiting = left
        return list(taken.values())

    async def _commit_all(self, items: list[_Item]) -> None:
        try:
            rows = await self._commit([item.values for item in items])
        except StoreUnavailable as error:
            for item in items:
                again = type(error)(
                    error.detail
                )  # one of its own for each: an exception that is raised changes
                again.outcome = error.outcome
                _fail(item, again)
        except Exception as error:  # noqa: BLE001 - told to whoever it belongs to
            if len(items) == 1:
                _fail(items[0], error)
            else:  # one's own fault must not be the others'
                for item in items:
                    await self._commit_all([item])
        else:
            by_id: dict[str, list[Row]] = {}
            for row in rows:
                by_id.setdefault(row["id"], []).append(row)
            for item in items:
                if not item.future.done():
                    item.future.set_result(by_id.get(item.values["id"], []))


def _fail(item: _Item, error: Exception) -> None:
    if not item.future.done():
        item.future.set_exception(error)
