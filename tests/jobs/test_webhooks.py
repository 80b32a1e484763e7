"""Calling webhooks: slow, redirecting and tired receivers, names that change their meaning, a stop meanwhile.

The store and the heartbeat are faked here, so that what is noted of each delivery can be seen. Receivers are real.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from time import monotonic
from typing import Any

import pytest
from standardwebhooks import Webhook

from proxy.config import Config
from proxy.jobs import webhooks
from proxy.jobs.job import Delivery, Job, Policy, State
from proxy.jobs.webhooks import Webhooks
from tests.fakes.until import until
from tests.fakes.wire_node import Turn, WireNode

SECRET = "plain words, 24 and more"
JOB = Job(
    id="j1", position=1, state=State.SUCCEEDED, policy=Policy.ONCE, method=b"POST", target=b"/", request_id="r",
    client="c", idempotency_key=None, has_webhook=True, created_at=1.0, sent_at=2.0, finished_at=3.0,
    wait_ends_at=None, sends=1, node="n", outcome="answered", error=None, owner="o", request_bytes=0,
    result_status=200, result_bytes=2, is_purged=False,
)  # fmt: skip


class Leader:
    """Heartbeat and store of a replica: `due` is taken once; `noted`: by job, `done` or error and delay."""

    is_leader = True

    def __init__(self, *due: Delivery) -> None:
        self.due = list(due)
        self.noted: dict[str, tuple[str, float | None]] = {}

    async def take_webhooks(self, limit: int, hold_secs: float) -> list[Delivery]:
        taken, self.due = self.due[:limit], self.due[limit:]
        return taken

    async def webhook_done(self, job_id: str) -> None:
        self.noted[job_id] = ("done", None)

    async def webhook_failed(self, job_id: str, error: str, retry_in_secs: float | None) -> None:
        self.noted[job_id] = (error, retry_in_secs)


def delivery(receiver: WireNode, job_id: str = "j1", host: str = "localhost", **changes: Any) -> Delivery:
    return Delivery(replace(JOB, id=job_id, **changes), f"http://{host}:{receiver.port}/hook", 1)


def caller(leader: Leader, **settings: Any) -> Webhooks:
    given = {"webhook_allowed_hosts": ("*",), "webhook_allow_private": True, "webhook_secret": SECRET}
    config = Config.model_validate(given | settings)
    return Webhooks(lambda: config, leader, leader)  # type: ignore[arg-type]


async def noted(leader: Leader, called: Webhooks, count: int = 1) -> dict[str, tuple[str, float | None]]:
    called.start()
    await until(lambda: len(leader.noted) == count, "what came of the calls is noted")
    await called.stop()
    return leader.noted


@pytest.mark.parametrize("state", [state for state in State if state.is_final])
async def test_each_end_is_told_and_signed(state: State) -> None:
    async with WireNode() as receiver:
        leader = Leader(delivery(receiver, state=state))
        assert (await noted(leader, caller(leader)))["j1"] == ("done", None)
        lines = receiver.seen[0].head.decode().split("\r\n")[1:-2]
        fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        told = Webhook(SECRET.encode()).verify(receiver.seen[0].body, fields)
        assert told["type"] == f"job.{state}"
        assert told["timestamp"] == told["data"]["finished_at"]


@pytest.mark.parametrize(
    ("status", "error", "is_repeated"),
    [(302, "it answered 302", True), (410, "it answered 410", False), (404, "it answered 404", True)],
)
async def test_answers_that_are_not_2xx(status: int, error: str, is_repeated: bool) -> None:
    async def answer(turn: Turn) -> None:
        turn.answer(status=status, fields=b"Location: /elsewhere\r\n")

    async with WireNode(answer) as receiver:
        leader = Leader(delivery(receiver))
        told, delay = (await noted(leader, caller(leader)))["j1"]
        assert (told, delay is not None) == (error, is_repeated)
        assert receiver.targets == ["/hook"]


async def test_one_that_hangs_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "_LOOK_SECS", 0.02)
    monkeypatch.setattr(webhooks, "_CALL_SECS", 0.5)

    async def hang(turn: Turn) -> None:
        await turn.peer_end()

    async with WireNode(hang) as slow, WireNode() as quick:
        leader = Leader(delivery(slow, "slow"))
        called = caller(leader)
        called.start()
        await slow.sees(1)
        leader.due.append(delivery(quick, "quick"))
        await until(lambda: len(leader.noted) == 2, "both are noted")
        await called.stop()
        assert list(leader.noted) == ["quick", "slow"]
        assert leader.noted["slow"][0] == "localhost: TimeoutError"


async def test_stops_while_one_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "_LAST_CALLS_SECS", 0.05)

    async def hang(turn: Turn) -> None:
        await turn.peer_end()

    async with WireNode(hang) as receiver:
        leader = Leader(delivery(receiver))
        called = caller(leader)
        called.start()
        await receiver.sees(1)
        began = monotonic()
        await called.stop()
        assert monotonic() - began < webhooks._CALL_SECS / 2
        assert not leader.noted


async def test_only_the_leader_calls() -> None:
    async with WireNode() as receiver:
        leader = Leader(delivery(receiver))
        leader.is_leader = False
        called = caller(leader)
        called.start()
        await asyncio.sleep(0)
        await called.stop()
        assert leader.due
        assert not receiver.seen


async def test_a_name_that_changes_its_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked up once for each call: the address that was looked at is the one that is used."""
    loop, asked = asyncio.get_running_loop(), []
    answers = ["127.0.0.1", "127.0.0.2"]
    resolve = loop.getaddrinfo

    async def changing(host: Any, port: Any, **options: Any) -> Any:
        if host != "hooks.example.com":
            return await resolve(host, port, **options)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answers[len(asked) - 1], port))]

    monkeypatch.setattr(loop, "getaddrinfo", changing)
    monkeypatch.setattr("proxy.jobs.webhook_rules.is_inside", lambda address: address != "127.0.0.1")
    async with WireNode() as receiver:
        leader = Leader(delivery(receiver, host="hooks.example.com"))
        private_refused = {"webhook_allowed_hosts": ("http://*",), "webhook_allow_private": False}
        called = caller(leader, **private_refused)
        assert (await noted(leader, called))["j1"] == ("done", None)
        assert len(asked) == 1
        again = Leader(delivery(receiver, host="hooks.example.com"))
        error, delay = (await noted(again, caller(again, **private_refused)))["j1"]
        assert "inside the operator's network" in error
        assert delay is not None
        assert len(receiver.seen) == 1


async def test_receivers_at_one_address_share_nothing() -> None:
    async def answer(turn: Turn) -> None:
        turn.answer(fields=b"Set-Cookie: who=first\r\n")

    async with WireNode(answer) as receiver:
        first = Leader(delivery(receiver))
        called = caller(first)
        called.start()
        await until(lambda: "j1" in first.noted, "the first is noted")
        first.due.append(delivery(receiver, "j2"))
        await until(lambda: "j2" in first.noted, "the second is noted")
        await called.stop()
        assert receiver.seen[0].writer is not receiver.seen[1].writer
        assert b"cookie" not in receiver.seen[1].head.lower()
