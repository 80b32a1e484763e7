"""Webhooks: called when a job is over, signed, tried again, also after a restart; never where they must not go."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from tests.fakes.job_client import ASYNC, ended, hand_in
from tests.fakes.proxy_here import proxy_here
from tests.fakes.wire_node import Turn, WireNode
from tests.providers.waiting import until

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr("proxy.jobs.webhooks._LOOK_SECS", 0.05)
    monkeypatch.setattr("proxy.jobs.webhook_rules._DELAYS", (0.05,) * 100)
    return {
        "database_url": f"sqlite:///{tmp_path}/jobs.db",
        "webhook_allowed_hosts": ["localhost"],
        "webhook_allow_private": True,
        "webhook_secret": SECRET,
    }


def url_of(receiver: WireNode) -> str:
    return f"http://localhost:{receiver.port}/hook?secret=x"


def fields_of(turn: Turn) -> dict[str, str]:
    pairs = (line.split(": ", 1) for line in turn.head.decode().split("\r\n")[1:-2])
    return {name.lower(): value for name, value in pairs}


async def test_called_signed_and_tried_again(settings: dict[str, Any]) -> None:
    async def receive(turn: Turn) -> None:
        turn.answer(status=(302, 500, 204)[len(receiver.seen) - 1], fields=b"Location: /elsewhere\r\n")

    async with WireNode() as node, WireNode(receive) as receiver:
        async with proxy_here([node.url], counts_files=False, **settings) as proxy:
            job = await hand_in(proxy, fields=f"Webhook-Url: {url_of(receiver)}\r\n")
            document = await ended(proxy, job)
            await receiver.sees(3)

            async def is_delivered() -> bool:
                return await proxy.metric("job_webhooks_total", result="delivered") == 1

            await until(is_delivered, "it is delivered")
            assert await proxy.metric("job_webhooks_total", result="failed") == 2
        assert receiver.targets == ["/hook?secret=x"] * 3  # the redirect was not followed
        told = [Webhook(SECRET).verify(turn.body, fields_of(turn)) for turn in receiver.seen]
        assert told[0]["type"] == "job.succeeded"
        assert told[0]["data"]["id"] == document["id"]
        assert len({fields_of(turn)["webhook-id"] for turn in receiver.seen}) == 1
        assert fields_of(receiver.seen[0])["host"] == f"localhost:{receiver.port}"
        assert b"webhook-url" not in node.seen[0].head.lower()


async def test_after_a_restart(settings: dict[str, Any]) -> None:
    async with WireNode() as node, WireNode() as receiver:
        receiver.shut()  # refuses
        async with proxy_here([node.url], counts_files=False, **settings) as proxy:
            await ended(proxy, await hand_in(proxy, fields=f"Webhook-Url: {url_of(receiver)}\r\n"))

            async def has_failed() -> bool:
                return await proxy.metric("job_webhooks_total", result="failed") >= 1

            await until(has_failed, "it was called in vain")
        await receiver.open()
        async with proxy_here([node.url], counts_files=False, **settings):
            await receiver.sees(1)
        assert json.loads(receiver.seen[0].body)["data"]["state"] == "succeeded"


async def test_addresses_inside_are_not_called(settings: dict[str, Any]) -> None:
    async with WireNode() as node, WireNode() as receiver:
        settings |= {"webhook_allow_private": False, "webhook_allowed_hosts": ["http://localhost"]}
        async with proxy_here([node.url], counts_files=False, **settings) as proxy:
            refused = await proxy.ask("/", fields=ASYNC + "Webhook-Url: http://127.0.0.1/\r\n")
            assert refused.outcome == (400, "not_sent")  # not named in webhook_allowed_hosts
            await ended(proxy, await hand_in(proxy, fields=f"Webhook-Url: {url_of(receiver)}\r\n"))

            async def was_refused() -> bool:
                return await proxy.metric("job_webhooks_total", result="failed") >= 2

            await until(was_refused, "it is refused, and tried again")
        assert not receiver.seen
