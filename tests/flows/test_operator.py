"""An operator at work on a proxy that serves: what is ordered happens, and nobody's request suffers but the removed."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.fakes.demo_nodes import DEMO_NODE
from tests.fakes.proxy_here import ProxyHere, proxy_here
from tests.fakes.until import until
from tests.fakes.wire_client import WireClient
from tests.fakes.wire_node import Turn, WireNode


async def order(proxy: ProxyHere, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
    """The answer of the admin port to an order by alice."""
    async with httpx.AsyncClient(trust_env=False) as client:
        url = f"http://127.0.0.1:{proxy.app.admin.port}{path}"
        answer = await client.post(url, json={"by": "alice"} | body)
    return answer.status_code, answer.json()


async def told(proxy: ProxyHere, path: str) -> Any:
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(f"http://127.0.0.1:{proxy.app.admin.port}{path}")).raise_for_status().json()


def name_of(node: WireNode) -> str:
    return f"127.0.0.1:{node.port}"


class Gate:
    """A node's work that goes on until it is opened."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, turn: Turn) -> None:
        await self.opened.wait()
        turn.answer()


# dispatch


async def test_while_dispatch_is_held_all_wait_and_what_runs_goes_on() -> None:
    gate = Gate()
    async with WireNode(gate) as one, WireNode(gate) as two, proxy_here([one.url, two.url]) as proxy:
        runs = asyncio.create_task(proxy.ask("/runs"))
        await until(lambda: len(one.seen) + len(two.seen) == 1, "it runs")
        code, answer = await order(proxy, "/api/dispatch/hold")
        assert (code, answer["action"]) == (200, "hold_dispatch")
        clients = [asyncio.create_task(proxy.ask(f"/{number}")) for number in range(3)]
        await proxy.waits(3)
        gate.opened.set()
        assert (await runs).status == 200
        await until(lambda: not proxy.app.dispatcher.running, "nothing runs")
        assert len(proxy.app.dispatcher.line) == 3, "with both nodes idle"
        status = await told(proxy, "/api/status")
        assert (status["held"]["dispatch"]["by"], status["queue"]["length"]) == ("alice", 3)
        code, answer = await order(proxy, "/api/dispatch/resume")
        assert (code, answer["result"]) == (200, "2 started, 1 wait")
        assert [answer.status for answer in await asyncio.gather(*clients)] == [200] * 3


async def test_the_time_to_wait_counts_while_held() -> None:
    async with WireNode() as node, proxy_here([node.url], queue_timeout_secs=0.2) as proxy:
        await order(proxy, "/api/dispatch/hold")
        answer = await proxy.ask("/")
        assert answer.outcome == (503, "not_sent")
        assert node.seen == []


async def test_a_full_line_refuses_also_while_held() -> None:
    async with WireNode() as node, proxy_here([node.url], max_queue_length=1) as proxy:
        await order(proxy, "/api/dispatch/hold")
        waiting = asyncio.create_task(proxy.ask("/waits"))
        await proxy.waits(1)
        assert (await proxy.ask("/more")).status == 429
        await order(proxy, "/api/dispatch/resume")
        assert (await waiting).status == 200


async def test_a_proxy_that_is_stopped_while_held_tells_those_that_wait_at_once() -> None:
    async with WireNode() as node:
        async with proxy_here([node.url], drain_timeout_secs=60) as proxy:
            await order(proxy, "/api/dispatch/hold")
            async with WireClient(proxy.port) as client:
                client.send("/waits")
                await proxy.waits(1)
                async with asyncio.timeout(5):
                    stopping = asyncio.create_task(proxy.app.stop(asyncio.Event()))
                    answer = await client.answer()
                    await stopping
        assert answer.outcome == (503, "not_sent")


# a waiting request


async def test_a_waiting_request_is_removed_and_no_other() -> None:
    gate = Gate()
    async with WireNode(gate) as node, proxy_here([node.url]) as proxy:
        runs = asyncio.create_task(proxy.ask("/runs", fields="X-Request-Id: runs\r\n"))
        await node.sees(1)
        waits = []
        for name in ("first", "second"):
            fields = f"X-Request-Id: {name}\r\n"
            waits.append(
                asyncio.create_task(proxy.ask(f"/{name}?q=1", method="POST", body=b"12345", fields=fields))
            )
            await proxy.waits(len(waits))
        queue = await told(proxy, "/api/queue")
        assert queue["length"] == 2
        first = queue["waiting"][0]
        assert first.pop("age_secs") >= 0
        assert first == {
            "place": 1,
            "request_id": "first",
            "method": "POST",
            "path": "/first",
            "size_bytes": 5,
            "client": "127.0.0.1",
        }
        assert (await order(proxy, "/api/queue/first/remove"))[0] == 200
        answer = await waits[0]
        assert answer.outcome == (503, "not_sent")
        assert "operator" in answer.problem["detail"]
        assert (await order(proxy, "/api/queue/runs/remove"))[0] == 409
        assert (await order(proxy, "/api/queue/first/remove"))[0] == 404
        gate.opened.set()
        assert [(await one).status for one in (runs, waits[1])] == [200, 200]
        assert node.targets == ["/runs", "/second?q=1"]
        assert await proxy.requests() == {(200, "answered"): 2, (503, "not_sent"): 1}


# nodes


@pytest.mark.usefixtures("probed_soon")
async def test_a_static_node_is_out_of_use_after_its_run_until_it_is_resumed() -> None:
    gate = Gate()
    async with WireNode(gate) as node, proxy_here([node.url]) as proxy:
        runs = asyncio.create_task(proxy.ask("/runs"))
        await node.sees(1)
        code, answer = await order(proxy, f"/api/nodes/{name_of(node)}/drain")
        assert (code, answer["result"]) == (200, "out of use after its run, until it is resumed")
        [shown] = (await told(proxy, "/api/status"))["nodes"]
        assert (shown["state"], shown["will_drain"]) == ("busy", True)
        waits = asyncio.create_task(proxy.ask("/waits"))
        await proxy.waits(1)
        gate.opened.set()
        assert (await runs).status == 200
        [shown] = (await told(proxy, "/api/status"))["nodes"]
        assert (shown["state"], shown["will_drain"]) == ("draining", False)
        await proxy.waits(1)
        assert (await order(proxy, f"/api/nodes/{name_of(node)}/replace"))[0] == 409
        assert (await order(proxy, "/api/scaling/nodes", count=2))[0] == 409
        assert (await order(proxy, f"/api/nodes/{name_of(node)}/resume"))[0] == 200
        assert (await waits).status == 200
        actions = await told(proxy, "/api/actions")
        assert [action["action"] for action in actions] == [
            "resume_node", "set_nodes", "replace_node", "drain_node",
        ]  # fmt: skip
        assert {(action["by"], action["client"]) for action in actions} == {("alice", "127.0.0.1")}


@pytest.mark.slow
async def test_nodes_are_made_replaced_and_drained_as_ordered_while_scaling_is_held() -> None:
    engine = {"kind": "process", "command": DEMO_NODE}
    async with proxy_here(provider=engine, min_nodes=0, max_nodes=2, counts_files=False) as proxy:
        await order(proxy, "/api/scaling/hold")
        _, answer = await order(proxy, "/api/scaling/nodes", count=5)
        assert answer["result"] == "2 being made; max_nodes is 2"
        await proxy.has_ready(2)
        before = [node["name"] for node in (await told(proxy, "/api/status"))["nodes"]]
        run = asyncio.create_task(proxy.ask("/?work=1"))
        await until(lambda: proxy.app.dispatcher.running == 1, "it runs")
        for name in before:
            assert (await order(proxy, f"/api/nodes/{name}/replace"))[0] == 200
        assert (await run).status == 200, "the busy one was not cut"
        nodes = proxy.app.dispatcher.nodes
        await until(
            lambda: len(nodes) == 2 and not {node.name for node in nodes} & set(before), "both were replaced"
        )
        await proxy.has_ready(2)
        assert (await proxy.ask("/")).status == 200
        _, answer = await order(proxy, "/api/scaling/nodes", count=0)
        assert answer["result"] == "2 drained"
        await until(lambda: not len(nodes), "none is left")
        waiting = asyncio.create_task(proxy.ask("/cold"))
        await proxy.waits(1)
        assert (await told(proxy, "/api/status"))["nodes"] == []
        await order(proxy, "/api/scaling/resume")
        assert (await waiting).status == 200
