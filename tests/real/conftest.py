"""Real programs: found on the machine, or installed once into a cache directory outside the repository."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import venv
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.fakes.programs import lacking, program
from tests.fakes.until import until

PROGRAMS = Path(__file__).with_name("programs")
PACKAGES = ("uvicorn[standard]", "gunicorn", "flask", "requests", "httpx", "aiohttp", "litserve", "gradio")


@pytest.fixture(scope="session")
def cache() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = root / f"fifo-proxy-tests-{sys.version_info.major}.{sys.version_info.minor}"
    path.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture(scope="session")
def python(cache: Path) -> str:
    """A Python with the servers and client libraries, apart from the proxy's own packages."""
    folder, done = cache / "python", cache / "python" / "done"
    wanted = "\n".join(PACKAGES)
    if not done.exists() or done.read_text() != wanted:
        venv.create(folder, with_pip=True, clear=True)
        _install([str(folder / "bin" / "pip"), "install", "--quiet", *PACKAGES], folder)
        done.write_text(wanted)
    return str(folder / "bin" / "python")


@pytest.fixture(scope="session")
def node_modules(cache: Path) -> Path:
    """A folder in which Node finds `ws`."""
    folder = cache / "node"
    if not (folder / "node_modules" / "ws").exists():
        folder.mkdir(exist_ok=True)
        _install([program("npm"), "install", "--silent", "--no-fund", "ws@8"], folder)
    return folder


def _install(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    if done.returncode:
        lacking(f"{command[0]} install failed: {done.stderr.strip()[-300:]}")


@pytest.fixture
def server(unused_tcp_port_factory: Callable[[], int], tmp_path: Path) -> Callable[..., object]:
    """`async with server([command with {port}]) as url`: a program that listens, and is stopped with its children."""

    @asynccontextmanager
    async def run(command: list[str], cwd: Path = PROGRAMS) -> AsyncIterator[str]:
        port = unused_tcp_port_factory()
        log = tmp_path / f"{port}.log"
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                *(part.replace("{port}", str(port)) for part in command),
                cwd=cwd,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env={**os.environ, "GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1"},
            )
        try:
            await until(
                lambda: process.returncode is not None or _listens(port), f"{command[0]} listens", secs=90
            )
            assert process.returncode is None, log.read_text()
            yield f"http://127.0.0.1:{port}"
        finally:
            if process.returncode is None:
                os.killpg(process.pid, 9)
            await process.wait()

    return run


def _listens(port: int) -> bool:
    """Whether somebody listens there, without a connection that a single-threaded server would have to serve."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


async def output_of(*command: str, cwd: Path | None = None, secs: float = 90) -> str:
    """What a program prints; it must end well and in time."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(secs):
        out, err = await process.communicate()
    assert process.returncode == 0, f"{command[0]}: {err.decode()[-2000:]}"
    return out.decode()
