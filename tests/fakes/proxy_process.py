"""The proxy as its users run it: a process with a configuration file, signals and an exit code."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

import httpx

from tests.fakes.wire_client import Answer, ask
from tests.providers.waiting import until


class ProxyProcess:
    """`start` returns once it serves. `log` is what it wrote so far."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.port, self.admin_port = free_ports(2)
        self._path = directory / "config.json"
        self._log = directory / "proxy.log"
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self.write()

    def write(self, *, in_place: bool = False, **changes: Any) -> None:
        """Write the configuration file anew: another file of that name, or the same one `in_place`."""
        self._settings |= changes
        ports = {"listen_host": "127.0.0.1", "listen_port": self.port, "admin_port": self.admin_port}
        text = json.dumps(self._settings | ports)
        if in_place:
            self.write_text(text)
            return
        fresh = self._path.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self._path)  # never half of a file

    def write_text(self, text: str) -> None:
        self._path.write_text(text)

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "proxy", "serve", "--config", str(self._path)), stdout=log, stderr=log
            )
        await until(self._answers, "it serves")

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def exit_code(self) -> int:
        """Wait for its end."""
        assert self._process is not None
        async with asyncio.timeout(30):
            return await self._process.wait()

    async def kill(self) -> None:
        """End it without a last word, if it still runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def ask(self, target: str = "/", **request: Any) -> Answer:
        return await ask(self.port, target, **request)

    async def status(self) -> dict[str, Any]:
        """`/api/status`."""
        status: dict[str, Any] = (await self._get("/api/status")).json()
        return status

    async def has_config(self, **keys: Any) -> None:
        """Return once it goes by these values."""

        async def is_so() -> bool:
            config = (await self._get("/api/config")).json()
            return all(config[key] == value for key, value in keys.items())

        await until(is_so, f"configured: {keys}")

    async def states(self) -> list[str]:
        """Of its nodes, sorted."""
        return sorted(node["state"] for node in (await self.status())["nodes"])

    async def has_states(self, *states: str) -> None:
        """Return once its nodes are in these states."""

        async def is_so() -> bool:
            return await self.states() == sorted(states)

        await until(is_so, f"nodes: {', '.join(states)}")

    async def runs(self, count: int, waiting: int = 0) -> None:
        """Return once so many requests run and wait."""

        async def is_so() -> bool:
            queue = (await self.status())["queue"]
            return bool(queue["running"] == count and queue["length"] == waiting)

        await until(is_so, f"{count} run and {waiting} wait")

    async def logs(self, text: str, count: int = 1) -> None:
        """Return once its log has this so often."""

        async def is_so() -> bool:
            return self.log.count(text) >= count

        await until(is_so, f"logged: {text}")

    async def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.returncode is None, self.log
        try:
            return (await self._get("/readyz", checks=False)).status_code in (200, 503)
        except httpx.TransportError:
            return False

    async def _get(self, path: str, *, checks: bool = True) -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"http://127.0.0.1:{self.admin_port}{path}")
        return answer.raise_for_status() if checks else answer


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on just now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for probe in sockets:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in sockets]
    finally:
        for probe in sockets:
            probe.close()
