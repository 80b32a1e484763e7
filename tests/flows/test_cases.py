"""The handed scripts of faults that users met in other proxies, run against the proxy as a process.

They are no part of this repository: FIFO_PROXY_CASES names their directory, or `shared/cases/http` of a parent.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes.proxy_process import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def find_cases() -> Path | None:
    if told := os.environ.get("FIFO_PROXY_CASES"):
        return Path(told)
    beside = (parent / "shared" / "cases" / "http" for parent in Path(__file__).parents)
    return next((directory for directory in beside if (directory / "bad_backend.py").exists()), None)


CASES = find_cases()
SCRIPTS = sorted(CASES.glob("b[0-9]*.py")) if CASES else []


@dataclass(frozen=True)
class Running:
    port: int
    pid: int
    backend_port: int
    log: Path


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    assert CASES is not None
    directory = tmp_path_factory.mktemp("cases")
    port, admin_port, backend_port = free_ports(3)
    config, log = directory / "config.json", directory / "proxy.log"
    settings = {
        "listen_port": port,
        "admin_port": admin_port,
        "provider": {"kind": "static", "nodes": [f"http://localhost:{backend_port}"]},
        "node_refresh_interval_secs": 1,
        "start_probe_interval_secs": 0.3,
    }
    config.write_text(json.dumps(settings))
    given = {name: value for name, value in os.environ.items() if not name.startswith("FIFO_PROXY_")}  # keys
    environment = given | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with log.open("wb") as output:
        backend = subprocess.Popen(
            [sys.executable, str(CASES / "bad_backend.py"), "127.0.0.1", str(backend_port)], stdout=output
        )
        await_port(backend_port)
        proxy = subprocess.Popen(
            [sys.executable, "-m", "proxy", "serve", "--config", str(config)],
            stdout=output,
            stderr=output,
            env=environment,
        )
    try:
        await_port(port)
        yield Running(port, proxy.pid, backend_port, log)
    finally:
        for process in (proxy, backend):
            process.kill()
            process.wait()


def await_port(port: int) -> None:
    limit = time.monotonic() + 20
    while time.monotonic() < limit:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"nothing listens on port {port}")


@pytest.mark.skipif(
    CASES is None, reason="the case scripts are not here: set FIFO_PROXY_CASES to their directory"
)
@pytest.mark.parametrize("script", SCRIPTS or [None], ids=[path.stem for path in SCRIPTS] or ["none"])
def test_case(script: Path, running: Running) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(f"http://127.0.0.1:{running.backend_port}/_reset", timeout=5).close()
    environment = os.environ | {"SECONDS_": "6", "MIB": "60", "PROXY_LOG": str(running.log)}
    environment["PROXY_PID"] = str(running.pid)
    if script.stem.startswith("b89"):  # the last one: it ends the proxy
        environment["ALLOW_TERM"] = "1"
    command = [sys.executable, str(script), "localhost", str(running.port)]
    done = subprocess.run(
        [*command, "--backend", f"localhost:{running.backend_port}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if "SKIP" in done.stdout:
        pytest.skip(done.stdout.strip())
    assert "PASS" in done.stdout
