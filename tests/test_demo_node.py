"""The demo node keeps to one request at a time, counts what breaks that, and fails on request."""

from __future__ import annotations

import asyncio
import hashlib
import io
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from proxy.demo_node import DemoNode

Client = aiohttp.ClientSession


@asynccontextmanager
async def serving(node: DemoNode) -> AsyncIterator[Client]:
    runner = node.runner()
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession(
        f"http://127.0.0.1:{runner.addresses[0][1]}", auto_decompress=False
    ) as session:
        yield session
    await runner.cleanup()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with serving(DemoNode(work_secs=0)) as session:
        yield session


async def connect(client: Client) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", address(client).port)


def address(client: Client) -> URL:
    assert client._base_url is not None
    return client._base_url


async def stats(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = await (await client.get("/stats")).json()
    return found


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Asks until it holds; the test's own timeout is the limit."""
    while not await holds():  # noqa: ASYNC110 (another process may have to change it)
        await asyncio.sleep(0.005)


async def is_active(client: Client, active: int) -> bool:
    return bool((await stats(client))["active"] == active)


async def is_ready(client: Client) -> bool:
    return (await client.get("/ready")).status == 200


async def until_active(client: Client, active: int) -> None:
    await until(lambda: is_active(client, active))


async def test_it_echoes_what_it_got(client: Client) -> None:
    body = b"\x00" * 300_000
    url = URL(str(address(client)).rstrip("/") + "/a//b?x=%2f&work=0", encoded=True)
    response = await client.post(url, data=body, headers=[("X-Twice", "1"), ("X-Twice", "2")])
    echo = await response.json()
    assert (response.status, echo["method"], echo["path"]) == (200, "POST", "/a//b?x=%2f&work=0")
    assert [pair for pair in echo["headers"] if pair[0] == "X-Twice"] == [["X-Twice", "1"], ["X-Twice", "2"]]
    assert (echo["body_length"], echo["body_sha256"]) == (len(body), hashlib.sha256(body).hexdigest())


async def test_it_does_not_decompress(client: Client) -> None:
    response = await client.post("/", data=b"not gzip", headers={"Content-Encoding": "gzip"})
    assert (await response.json())["body_length"] == 8


async def test_it_gives_the_body_back_also_from_a_file(client: Client) -> None:
    body = bytes(range(256)) * 9000
    response = await client.post("/?echo=body", data=io.BytesIO(body), headers={"Content-Type": "image/png"})
    assert await response.read() == body
    assert (response.content_type, response.content_length) == ("image/png", len(body))


@pytest.mark.parametrize("size", [0, 1, 2, 65536, 1_000_001])
async def test_an_answer_of_n_bytes(client: Client, size: int) -> None:
    response = await client.get(f"/?bytes={size}")
    assert (response.content_length, len(await response.read())) == (size, size)


async def test_a_stream_is_chunked_and_paced(client: Client) -> None:
    begun = time.monotonic()
    response = await client.get("/?stream=3&every=0.05")
    assert response.headers["Transfer-Encoding"] == "chunked"
    assert await response.content.readline() == b"piece 0\n"
    assert await response.read() == b"piece 1\npiece 2\n"
    assert time.monotonic() - begun >= 0.1


async def test_events(client: Client) -> None:
    response = await client.get("/?sse=2")
    assert response.content_type == "text/event-stream"
    assert await response.read() == b'data: {"n": 0}\n\ndata: {"n": 1}\n\n'


@pytest.mark.parametrize("status", [204, 304, 404, 500, 599])
async def test_a_status_on_request(client: Client, status: int) -> None:
    response = await client.get(f"/?status={status}")
    assert (response.status, bool(await response.read())) == (status, status not in (204, 304))


async def test_head_has_no_body(client: Client) -> None:
    response = await client.head("/?bytes=100")
    assert (response.status, response.content_length, await response.read()) == (200, 100, b"")
    assert (await client.get("/")).status == 200


@pytest.mark.parametrize(
    "query",
    ["work=x", "work=-1", "work=inf", "work=nan", "bytes=-1", "stream=1.5", "status=99", "fail=maybe"],
)
async def test_nonsense_is_refused_and_does_not_occupy_it(client: Client, query: str) -> None:
    response = await client.get(f"/?{query}")
    assert (response.status, (await response.text()).partition(":")[0]) == (400, query.partition("=")[0])
    assert (await stats(client))["started"] == []


async def test_a_second_request_is_refused_and_counted(client: Client) -> None:
    first = asyncio.create_task(client.get("/first?work=0.2"))
    await until_active(client, 1)
    assert (await client.get("/ready")).status == 503
    assert (await client.get("/second")).status == 503
    assert (await first).status == 200
    assert (await client.get("/third")).status == 200
    assert (await client.get("/ready")).status == 200
    seen = await stats(client)
    assert (seen["served"], seen["violations"], seen["active"]) == (2, 1, 0)
    assert [started["target"] for started in seen["started"]] == ["/first?work=0.2", "/third"]


async def test_it_is_free_when_its_answer_has_been_read(client: Client) -> None:
    for query in ("bytes=3000000", "stream=3", "work=0") * 3:
        response = await client.get(f"/?{query}")
        await response.read()
        assert response.status == 200
    assert (await stats(client))["violations"] == 0


async def test_it_is_busy_while_it_receives(client: Client) -> None:
    may_end = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"begun"
        await may_end.wait()

    sending = asyncio.create_task(client.post("/", data=body()))
    await until_active(client, 1)
    assert (await client.get("/")).status == 503
    may_end.set()
    assert (await (await sending).json())["body_length"] == 5


@pytest.mark.parametrize("query", ["work=0.6", "stream=4&every=0.2"])
async def test_it_works_on_when_its_client_leaves(client: Client, query: str) -> None:
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        async with client.get(f"/?{query}", timeout=aiohttp.ClientTimeout(total=0.1)) as response:
            await response.read()
    assert (await client.get("/ready")).status == 503
    await until_active(client, 0)
    assert time.monotonic() - begun >= 0.6
    assert (await stats(client))["left"] == 1


async def test_it_is_free_when_its_client_leaves_while_sending(client: Client) -> None:
    _, writer = await connect(client)
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
    await until_active(client, 1)
    writer.close()
    await until_active(client, 0)
    seen = await stats(client)
    assert (seen["left"], seen["served"]) == (1, 0)


async def test_a_202_is_worked_on_after_its_answer(client: Client) -> None:
    begun = time.monotonic()
    response = await client.get("/?accept=1&lag=0.5")
    assert (response.status, await is_ready(client)) == (202, True)  # the lag
    while await is_ready(client):
        assert time.monotonic() - begun < 1
    assert (await client.get("/")).status == 503
    await until(lambda: is_ready(client))
    assert time.monotonic() - begun >= 1
    assert ((await stats(client))["violations"], (await client.get("/")).status) == (1, 200)


@pytest.mark.parametrize("query", ["fail=close", "fail=reset"])
async def test_it_breaks_off_before_its_answer(client: Client, query: str) -> None:
    reader, writer = await connect(client)
    writer.write(f"GET /?{query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    if query == "fail=close":
        assert await reader.read() == b""
    else:
        with pytest.raises(ConnectionResetError):
            await reader.read()
    writer.close()
    assert (await client.get("/")).status == 200


@pytest.mark.parametrize(
    ("query", "has", "lacks"),
    [
        ("fail=mid&bytes=200000", b"Content-Length: 200000", b""),
        ("fail=mid&stream=4", b"piece 1\n", b"piece 2\n"),
        ("fail=mid", b'"method"', b"body_sha256"),
    ],
)
async def test_it_breaks_off_in_the_middle(client: Client, query: str, has: bytes, lacks: bytes) -> None:
    reader, writer = await connect(client)
    writer.write(f"GET /?{query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    assert has in answer
    assert not lacks or lacks not in answer
    assert not answer.endswith(b"0\r\n\r\n")
    assert 100 < len(answer) < 200_000


async def test_it_is_not_ready_at_first() -> None:
    begun = time.monotonic()
    async with serving(DemoNode(ready_after_secs=0.2)) as client:
        assert not await is_ready(client)
        await until(lambda: is_ready(client))
        assert time.monotonic() - begun >= 0.2


def start(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "proxy", "demo-node", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
    )


async def test_the_command_serves_large_heads_and_stops_at_once_when_told() -> None:
    with start("--port", "0", "--work", "60") as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        async with aiohttp.ClientSession(url) as session:
            async with session.get("/?work=0", headers={"X-Large": "x" * 50_000}) as response:
                assert response.status == 200
            working = asyncio.create_task(session.get("/"))
            await until_active(session, 1)
            told = time.monotonic()
            process.send_signal(signal.SIGTERM)
            with pytest.raises(aiohttp.ClientError):
                await working
        assert process.wait(timeout=10) == 0
        assert time.monotonic() - told < 3


def test_a_taken_port_is_one_line_and_1() -> None:
    with start("--port", "0") as first:
        assert first.stdout is not None
        port = first.stdout.readline().rsplit(":", 1)[-1].strip()
        with start("--port", port) as second:
            out, err = second.communicate(timeout=20)
            assert (second.returncode, out, err.count("\n")) == (1, "", 1)
            assert f"cannot listen on 127.0.0.1:{port}" in err
        first.terminate()
