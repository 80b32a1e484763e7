"""Group commit: who shares a transaction, and what each is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from proxy.errors import StoreFull, StoreUnavailable
from proxy.jobs.group_commit import GroupCommit
from proxy.tasks import Tasks

WAIT_SECS = 30.0


class Commits:
    """Keeps what it is given, and waits in each commit until it is let go."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, many: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        ids = [values["id"] for values in many]
        self.batches.append(ids)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        if "wrong" in ids:
            raise ValueError("wrong")
        return [{"id": job_id} for job_id in ids if not job_id.startswith("none")]


@pytest.fixture
def commits() -> Commits:
    return Commits()


@pytest.fixture
async def group(commits: Commits) -> AsyncIterator[GroupCommit]:
    tasks = Tasks()
    yield GroupCommit(commits, tasks)
    await tasks.stop()


def add(group: GroupCommit, *ids: str, secs: float = WAIT_SECS) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(group.add({"id": job_id}, secs)) for job_id in ids]


async def turns(count: int = 5) -> None:
    """Of the event loop: all that can go on has."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_comes_meanwhile_shares_the_next(commits: Commits, group: GroupCommit) -> None:
    first = add(group, "a")
    await turns()
    later = add(group, "b", "none-1", "c")
    await turns()
    assert commits.batches == [["a"]]
    commits.gate.set()
    answers = await asyncio.gather(*first, *later)
    assert commits.batches == [["a"], ["b", "none-1", "c"]]
    assert answers == [[{"id": "a"}], [{"id": "b"}], [], [{"id": "c"}]]


async def test_two_of_the_same_job_never_share_one(commits: Commits, group: GroupCommit) -> None:
    commits.gate.set()
    answers = await asyncio.gather(*add(group, "a", "b", "a", "a"))
    assert commits.batches == [["a", "b"], ["a"], ["a"]]
    assert answers == [[{"id": job_id}] for job_id in "abaa"]


async def test_of_what_was_given_up_it_is_told_whether_it_was_begun(
    commits: Commits, group: GroupCommit
) -> None:
    (begun,) = add(group, "begun", secs=0.05)
    await turns()
    (waiting,) = add(group, "waiting", secs=0.05)
    answers = await asyncio.gather(begun, waiting, return_exceptions=True)
    assert [getattr(answer, "outcome", None) for answer in answers] == ["unknown", "not_sent"]
    commits.gate.set()
    await group.finish()
    assert commits.batches == [["begun"]]


async def test_a_failed_commit_is_everybodys(commits: Commits, group: GroupCommit) -> None:
    commits.error = StoreFull("no room")
    commits.error.outcome = "unknown"
    commits.gate.set()
    answers = await asyncio.gather(*add(group, "a", "b"), return_exceptions=True)
    assert [(type(answer), getattr(answer, "outcome", None)) for answer in answers] == [
        (StoreFull, "unknown")
    ] * 2
    assert answers[0] is not answers[1]
    commits.error = None
    assert await group.add({"id": "c"}, WAIT_SECS) == [{"id": "c"}]


async def test_ones_own_fault_is_not_the_others(commits: Commits, group: GroupCommit) -> None:
    commits.gate.set()
    answers = await asyncio.gather(*add(group, "a", "wrong", "b"), return_exceptions=True)
    assert answers[0] == [{"id": "a"}]
    assert isinstance(answers[1], ValueError)
    assert answers[2] == [{"id": "b"}]


async def test_finish_waits_for_all(commits: Commits, group: GroupCommit) -> None:
    await group.finish()  # nothing to wait for
    calls = add(group, "a", "b")
    await turns()
    finishing = asyncio.create_task(group.finish())
    await turns()
    assert not finishing.done()
    commits.gate.set()
    await finishing
    assert all(call.done() for call in calls)
    assert not isinstance(calls[0].exception(), StoreUnavailable)
