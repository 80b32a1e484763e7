"""The process: killed, started again, told to stop, told to reload (DESIGN 1.1, promises 2 and 4)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import tiny_node
from tests.fakes.demo_nodes import DEMO_NODE, stats_of
from tests.fakes.proxy_here import QUICK
from tests.fakes.proxy_process import ProxyProcess
from tests.fakes.suanli_cloud import SuanliCloud
from tests.fakes.wire_client import WireClient
from tests.flows.test_scaling_flows import REQUEST, TOKEN
from tests.providers.waiting import is_alive, until, until_dead

pytestmark = pytest.mark.slow  # processes take their time to start

MakeProxy = Callable[..., ProxyProcess]
PROCESS = {"kind": "process", "command": DEMO_NODE}


@pytest.fixture
async def make_proxy(tmp_path: Path) -> AsyncIterator[MakeProxy]:
    made: list[ProxyProcess] = []

    def make(**settings: Any) -> ProxyProcess:
        made.append(ProxyProcess(tmp_path, **(QUICK | settings)))
        return made[-1]

    yield make
    for proxy in made:
        await proxy.kill()


@pytest.fixture
async def cloud() -> AsyncIterator[SuanliCloud]:
    made = SuanliCloud(TOKEN, command=tuple(DEMO_NODE))
    await made.start()
    yield made
    await made.close()


async def wrong_with(proxy: ProxyProcess) -> dict[str, str]:
    """The reasons for which it is degraded."""
    return {reason["code"]: reason["detail"] for reason in (await proxy.status())["health"]["reasons"]}


async def test_killed_while_nodes_serve_and_started_again(make_proxy: MakeProxy, cloud: SuanliCloud) -> None:
    """It adopts them, makes none too many, and leaves a node alone that still works on a request of before."""
    engine = {"kind": "suanli", "openapi_base_url": cloud.url, "token": TOKEN}
    proxy = make_proxy(provider=engine, proxy_port=3000, scale_up_request=REQUEST, min_nodes=2, max_nodes=2)
    await proxy.start()
    await proxy.has_states("idle", "idle")
    async with WireClient(proxy.port) as client:
        client.send("/before?work=4", method="POST")
        await proxy.runs(1)
        await proxy.kill()
        assert await client.reader.read() == b"", "its client hears the end, no answer"
    await proxy.start()
    answers = await asyncio.gather(*(proxy.ask(f"/after/{n}", method="POST") for n in range(20)))
    assert [answer.status for answer in answers] == [200] * 20
    stats = [await stats_of(node.url) for node in await cloud.tasks.nodes() if node.url]
    assert sum(node["active"] for node in stats) == 1, "the request of before is still at work"
    assert [node["violations"] for node in stats] == [0, 0]
    await proxy.has_states("idle", "idle")
    stats = [await stats_of(node.url) for node in await cloud.tasks.nodes() if node.url]
    assert [node["active"] for node in stats] == [0, 0], "it was ready only when that was over"
    assert [node["violations"] for node in stats] == [0, 0]
    assert cloud.counts()["create"] == 2, "none was made for those that were there"
    assert not cloud.refused


async def test_killed_proxy_leaves_no_process_behind(make_proxy: MakeProxy) -> None:
    proxy = make_proxy(provider=PROCESS, min_nodes=2)
    await proxy.start()
    await proxy.has_states("idle", "idle")
    nodes = [(await stats_of(node["url"]))["pid"] for node in (await proxy.status())["nodes"]]
    await proxy.kill()
    for pid in nodes:
        await until_dead(pid)


async def test_term_lets_what_runs_and_waits_finish(make_proxy: MakeProxy) -> None:
    proxy = make_proxy(provider=PROCESS, min_nodes=1, max_nodes=1, drain_timeout_secs=20)
    await proxy.start()
    await proxy.has_states("idle")
    (node,) = (await proxy.status())["nodes"]
    pid = (await stats_of(node["url"]))["pid"]
    running = asyncio.create_task(proxy.ask("/running?work=1", method="POST"))
    await proxy.runs(1)
    waiting = asyncio.create_task(proxy.ask("/waiting", method="POST"))
    await proxy.runs(1, waiting=1)
    async with WireClient(proxy.port) as idle:
        idle.send("/")
        await proxy.runs(1, waiting=2)
        proxy.signal(signal.SIGTERM)
        assert (await running).status == 200
        assert (await waiting).status == 200
        assert (await idle.answer()).fields["connection"] == "close"
        assert await proxy.exit_code() == 0
    assert not is_alive(pid)
    with pytest.raises(ConnectionRefusedError):
        await proxy.ask("/late")


async def test_past_the_drain_time_the_rest_is_told(make_proxy: MakeProxy) -> None:
    proxy = make_proxy(provider=PROCESS, min_nodes=1, max_nodes=1, drain_timeout_secs=0.5)
    await proxy.start()
    await proxy.has_states("idle")
    running = asyncio.create_task(proxy.ask("/running?work=20", method="POST"))
    await proxy.runs(1)
    waiting = asyncio.create_task(proxy.ask("/waiting", method="POST"))
    await proxy.runs(1, waiting=1)
    proxy.signal(signal.SIGINT)
    assert (await running).outcome == (503, "unknown")
    answer = await waiting
    assert answer.outcome == (503, "not_sent")
    assert int(answer.fields["retry-after"]) >= 1
    assert await proxy.exit_code() == 0


async def test_second_signal_is_now(make_proxy: MakeProxy) -> None:
    proxy = make_proxy(provider=PROCESS, min_nodes=1, drain_timeout_secs=60)
    await proxy.start()
    await proxy.has_states("idle")
    running = asyncio.create_task(proxy.ask("/running?work=50", method="POST"))
    await proxy.runs(1)
    proxy.signal(signal.SIGTERM)
    await proxy.logs("stopping")
    proxy.signal(signal.SIGTERM)
    assert await proxy.exit_code() == 0
    assert (await running).outcome == (503, "unknown")


async def test_reload_keeps_everything(make_proxy: MakeProxy) -> None:
    """More nodes at once; who runs and who waits hears nothing of it."""
    proxy = make_proxy(provider=PROCESS, min_nodes=1, max_nodes=1)
    await proxy.start()
    await proxy.has_states("idle")
    running = asyncio.create_task(proxy.ask("/running?work=5", method="POST"))
    await proxy.runs(1)
    waiting = asyncio.create_task(proxy.ask("/waiting", method="POST"))
    await proxy.runs(1, waiting=1)
    proxy.write(min_nodes=2, max_nodes=2, listen_host="127.0.0.1", spool_dir="/tmp")
    proxy.signal(signal.SIGHUP)
    await proxy.logs("configuration reloaded")
    assert (await waiting).status == 200, "by the second node"
    assert not running.done()
    assert (await running).status == 200
    await proxy.has_states("idle", "idle")
    assert "spool_dir changes only with a restart" in proxy.log
    assert (await proxy.status())["needs_restart"] == ["spool_dir"]


async def test_bad_reload_keeps_the_old_configuration(make_proxy: MakeProxy) -> None:
    proxy = make_proxy(provider=PROCESS, min_nodes=1)
    await proxy.start()
    await proxy.has_states("idle")
    running = asyncio.create_task(proxy.ask("/running?work=1", method="POST"))
    await proxy.runs(1)
    proxy.write_text('{"min_nodez": 2}')
    proxy.signal(signal.SIGHUP)
    await proxy.logs("not reloaded")
    assert "min_nodes" in proxy.log, "a near name is told"
    assert "min_nodez" in (await wrong_with(proxy))["config_refused"]
    assert (await running).status == 200
    assert (await proxy.ask("/after")).status == 200
    assert await proxy.states() == ["idle"]
    proxy.write()
    await proxy.logs("configuration reloaded")
    assert "config_refused" not in await wrong_with(proxy)


async def test_changed_file_is_noticed_without_a_signal(make_proxy: MakeProxy) -> None:
    proxy = make_proxy(provider=PROCESS, min_nodes=1)
    await proxy.start()
    await proxy.has_states("idle")
    proxy.write(min_nodes=2)
    await proxy.has_states("idle", "idle")


async def test_tuned_under_load_it_loses_nothing(make_proxy: MakeProxy, tmp_path: Path) -> None:
    """Thresholds up and down, by signal, by a replaced and by a rewritten file, and a bad one in between, while clients
    never pause: each request is answered 200 and was run by exactly one node."""
    journal = tmp_path / "journal"
    engine = {
        "kind": "process",
        "command": ["{python}", tiny_node.__file__, "{port}", str(journal), "0.01"],
    }
    proxy = make_proxy(provider=engine, min_nodes=1, max_nodes=1, idle_shutdown_secs=0.2)
    await proxy.start()
    await proxy.has_states("idle")
    sent: list[str] = []
    is_over = asyncio.Event()

    async def client(number: int) -> list[int]:
        answers: list[int] = []
        while not is_over.is_set():
            sent.append(f"/{number}/{len(answers)}")
            answers.append((await proxy.ask(sent[-1], method="POST")).status)
        return answers

    async def has_nodes(count: int) -> None:
        async def is_so() -> bool:
            states = await proxy.states()
            return len(states) == count and "starting" not in states and "draining" not in states

        await until(is_so, f"{count} nodes serve")

    clients = [asyncio.create_task(client(number)) for number in range(6)]
    proxy.write(min_nodes=3, max_nodes=3)
    proxy.signal(signal.SIGHUP)
    await has_nodes(3)
    proxy.write_text('{"min_nodez": 2}')
    await proxy.logs("not reloaded")
    assert "config_refused" in await wrong_with(proxy)
    proxy.write(in_place=True, min_nodes=1, max_nodes=4, queue_scale_count_threshold=1)
    await proxy.has_config(max_nodes=4)
    await has_nodes(4)
    proxy.write(scaling_policy="per_request", max_queue_length=50, run_timeout_secs=60)
    await proxy.has_config(max_queue_length=50)
    for threshold in range(5):
        proxy.write(queue_scale_wait_secs=threshold, in_place=bool(threshold % 2))
        proxy.signal(signal.SIGHUP)
        await proxy.has_config(queue_scale_wait_secs=threshold)
    assert "config_refused" not in await wrong_with(proxy)
    is_over.set()
    answers = [status for answered in await asyncio.gather(*clients) for status in answered]
    assert set(answers) == {200}
    assert len(answers) == len(sent) > 100
    assert sorted(journal.read_text().split()) == sorted(sent)
    await has_nodes(1)  # and down again, by the thresholds of now
