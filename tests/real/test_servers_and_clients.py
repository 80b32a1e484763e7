"""Every client library against every kind of server, through the proxy: what one gets is what it would get directly.

The servers with one thread must go on answering probes while a connection of ours stays open.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.dispatch.nodes import NodeState
from tests.fakes.programs import program
from tests.fakes.proxy_here import ProxyHere, proxy_here
from tests.fakes.until import until
from tests.real.conftest import PROGRAMS, output_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

Server = Callable[..., AbstractAsyncContextManager[str]]

LARGE = bytes(range(256)) * 20480
NGINX = """
user root; daemon off; pid {folder}/pid; error_log stderr; worker_processes 1;
events {{}}
http {{
    access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    server {{
        listen 127.0.0.1:{port};
        location / {{ return 200 hello; }}
        location = /bytes {{ alias {folder}/bytes; }}
    }}
}}
"""


def told(body: bytes, length: int | None = None) -> list[object]:
    return [200, len(body), hashlib.sha256(body).hexdigest()]


EXPECTED = {
    "hello": told(b"hello"),
    "head": told(b""),
    "empty": told(b""),
    "small": told(b"\x01" * 1024),
    "large": told(LARGE),
    "chunked": told(LARGE),
    "down": told(b"\xab" * len(LARGE)),
}


def commands(python: str) -> dict[str, list[str]]:
    return {
        "uvicorn": [python, "-m", "uvicorn", "--port", "{port}", "--log-level", "warning", "asgi:app"],
        "gunicorn": [
            python,
            "-m",
            "gunicorn",
            "--bind",
            "127.0.0.1:{port}",
            "--log-level",
            "warning",
            "wsgi:app",
        ],
        "flask": [python, "wsgi.py", "{port}"],
        "http.server": [python, "plain.py", "{port}"],
        "php": ["php", "-S", "127.0.0.1:{port}", "router.php"],
        "node": ["node", "server.mjs", "{port}"],
    }


async def clients(python: str, url: str) -> dict[str, dict[str, Any]]:
    """What each client library was told, one after the other."""
    found = {}
    for library in ("requests", "httpx", "aiohttp"):
        found[library] = json.loads(await output_of(python, "client.py", library, url, cwd=PROGRAMS))
    found["fetch"] = json.loads(await output_of(program("node"), "client.mjs", url, cwd=PROGRAMS))
    return found


async def stays_ready(proxy: ProxyHere, probes: int = 4) -> None:
    """The node answers so many more probes, although our connection to it is kept, and is never unready."""
    (node,) = proxy.app.dispatcher.nodes
    seen: set[float] = set()

    def is_enough() -> bool:
        assert node.state is NodeState.IDLE, node.reason
        if node.last_probe is not None:
            assert node.last_probe.status == 200, node.last_probe
            seen.add(node.last_probe.at)
        return len(seen) >= probes

    await until(is_enough, f"{probes} probes answered")


@pytest.mark.parametrize("name", ["uvicorn", "gunicorn", "flask", "http.server", "php", "node"])
async def test_every_client_gets_what_the_server_gives(name: str, python: str, server: Server) -> None:
    command = commands(python)[name]
    program(command[0])
    async with server(command) as node, proxy_here([node], counts_files=False) as proxy:
        for library, got in (await clients(python, f"http://127.0.0.1:{proxy.port}")).items():
            assert got == EXPECTED, library
        await stays_ready(proxy)
        assert set(await proxy.requests()) == {(200, "answered")}, "none was broken, none refused"


async def test_nginx(server: Server, tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(LARGE)
    nginx = program("nginx")
    shell = f'sed "s/PORT/{{port}}/" {tmp_path}/template > {tmp_path}/conf && exec {nginx} -c {tmp_path}/conf'
    (tmp_path / "template").write_text(NGINX.format(folder=tmp_path, port="PORT"))
    async with server(["sh", "-c", shell]) as node, proxy_here([node], counts_files=False) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"{url}/hello")).text == "hello"
            whole = await client.get(f"{url}/bytes")
            assert whole.content == LARGE
            part = await client.get(f"{url}/bytes", headers={"Range": "bytes=1000-1999"})
            assert (part.status_code, part.content) == (206, LARGE[1000:2000])
            again = await client.get(f"{url}/bytes", headers={"If-None-Match": whole.headers["ETag"]})
            assert (again.status_code, again.content) == (304, b"")
        await stays_ready(proxy)


async def test_curl(python: str, server: Server, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(LARGE)
    curl = program("curl")
    async with server(commands(python)["uvicorn"]) as node, proxy_here([node], counts_files=False) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        assert await output_of(curl, "-sS", "--http1.0", f"{url}/hello") == "hello"
        head = await output_of(curl, "-sSI", f"{url}/bytes?n=7")
        assert "content-length: 7" in head.lower()
        for how in (["--data-binary"], ["-H", "Transfer-Encoding: chunked", "--data-binary"]):
            out = tmp_path / "out"
            upload = [*how, f"@{tmp_path}/large", "-H", "Expect: 100-continue", "-o", str(out)]
            log = await output_of(curl, "-sS", "-w", "%{http_code} %{num_connects}", *upload, f"{url}/echo")
            assert log == "200 1"
            assert out.read_bytes() == LARGE
        assert (
            await output_of(curl, "-sSN", f"{url}/events") == "data: 0\n\ndata: 1\n\ndata: 2\n\ndata: end\n\n"
        )
        both = await output_of(curl, "-sS", f"{url}/hello", "--next", "-sS", "-d", "x=1", f"{url}/echo")
        assert both == "hellox=1"


async def test_litserve(python: str, server: Server) -> None:
    async with (
        server([python, "lit.py", "{port}"]) as node,
        proxy_here([node], counts_files=False, health_check_path="/health") as proxy,
        httpx.AsyncClient(trust_env=False, base_url=f"http://127.0.0.1:{proxy.port}") as client,
    ):
        answers = await asyncio.gather(*(client.post("/predict", json={"input": n}) for n in range(8)))
        assert [answer.json() for answer in answers] == [{"output": float(n * n)} for n in range(8)]
        await stays_ready(proxy)


async def test_gradio(python: str, server: Server) -> None:
    async with (
        server([python, "gradio_app.py", "{port}"]) as node,
        proxy_here([node], counts_files=False, health_check_path="/") as proxy,
        httpx.AsyncClient(trust_env=False, base_url=f"http://127.0.0.1:{proxy.port}") as client,
    ):
        asked = await client.post("/gradio_api/call/predict", json={"data": ["desserts"]})
        event = asked.json()["event_id"]
        async with client.stream("GET", f"/gradio_api/call/predict/{event}") as stream:
            text = (await stream.aread()).decode()
        assert "event: complete" in text
        assert json.loads(text.rpartition("data: ")[2]) == ["stressed"]
        await stays_ready(proxy)


async def test_chromium(python: str, server: Server, tmp_path: Path) -> None:
    """A page that fetches, listens to events and opens a WebSocket, one after the other through one node."""
    chromium = program("chromium")
    async with server(commands(python)["uvicorn"]) as node, proxy_here([node], counts_files=False) as proxy:
        page = f"http://127.0.0.1:{proxy.port}/page"
        browser = await asyncio.create_subprocess_exec(
            chromium,
            *(
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-sync",
            ),
            *(
                "--disable-background-networking",
                "--disable-component-update",
                f"--user-data-dir={tmp_path}/profile",
            ),
            page,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(60), httpx.AsyncClient(trust_env=False) as direct:
                while not (result := (await direct.get(f"{node}/result")).text):  # noqa: ASYNC110 (another process)
                    await asyncio.sleep(0.1)
        finally:
            os.killpg(browser.pid, 9)
            await browser.wait()
        assert result == "fetch=abc events=0,1,2,end socket=ping"
