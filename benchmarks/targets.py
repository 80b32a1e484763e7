"""The proxy under test and its peers: how each is configured and started.

Each is given what its users would give it for nodes that serve one request at a time, as fast as it goes: one
thread or worker, connections to nodes kept alive, no access log. All run alone on the proxy's core.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import ClassVar

from benchmarks.process import BenchmarkError, Process, free_ports, wait_until

_PEERS = Path(__file__).with_name("peers")
_LONG_LINE = 50_000  # more waiting than any scenario has


def _fill(template: str, **values: object) -> str:
    return Template((_PEERS / template).read_text()).substitute(values)


class Target(ABC):
    """A kind of proxy. `has_line`: it gives a node one request at a time, in order."""

    name: ClassVar[str]
    has_line: ClassVar[bool] = True

    @abstractmethod
    def missing(self) -> str | None:
        """Why it cannot run here; None if it can."""

    @abstractmethod
    def processes(self, node_ports: Sequence[int], port: int, directory: Path) -> list[list[str]]:
        """Writes its configuration into `directory`; the commands to start, in order."""

    def is_ready(self, port: int, node_count: int) -> bool:
        """Whether it answers from a node (and, where it can tell, has all of them)."""
        return status_of(port, "/?bytes=0") == 200

    @contextmanager
    def start(
        self, node_ports: Sequence[int], *, cpus: str, directory: Path, timeout_secs: float = 60.0
    ) -> Iterator[Proxy]:
        """A running proxy in front of these nodes, ready for requests."""
        directory.mkdir(parents=True, exist_ok=True)
        (port,) = free_ports(1)
        started: list[Process] = []
        try:
            for argv in self.processes(node_ports, port, directory):
                started.append(Process(argv, cpus=cpus, log=directory / f"{len(started)}.log"))
            proxy = Proxy(self, port, started)
            wait_until(
                lambda: proxy.check_running() and self.is_ready(port, len(node_ports)),
                f"{self.name} to be ready",
                timeout_secs,
            )
            yield proxy
            proxy.check_running()
        finally:
            for process in reversed(started):
                process.stop()


class Proxy:
    """A running target; the figures are those of all its processes."""

    def __init__(self, target: Target, port: int, processes: Sequence[Process]) -> None:
        self.target = target
        self.port = port
        self._processes = processes

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def check_running(self) -> bool:
        """True, or raises BenchmarkError with what it said last."""
        for process in self._processes:
            if not process.is_running:
                raise BenchmarkError(f"{self.target.name} ended: {process.log_tail()}")
        return True

    def cpu_secs(self) -> float:
        return sum(process.cpu_secs() for process in self._processes)

    def rss_bytes(self) -> int:
        return sum(process.memory().rss for process in self._processes)

    def pss_bytes(self) -> int:
        return sum(process.memory().pss for process in self._processes)

    def wait_quiet(self) -> None:
        for process in self._processes:
            process.wait_quiet()


def status_of(port: int, path: str) -> int | None:
    """The status of a GET; None when nothing answers yet."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


class FifoProxy(Target):
    name = "fifo-proxy"

    def __init__(self) -> None:
        self._admin_port = 0

    def missing(self) -> str | None:
        return None if importlib.util.find_spec("proxy.app") else "proxy.app does not exist yet"

    def processes(self, node_ports: Sequence[int], port: int, directory: Path) -> list[list[str]]:
        (self._admin_port,) = free_ports(1)
        config = directory / "config.json"
        config.write_text(
            json.dumps(
                {
                    "provider": {"kind": "static", "nodes": [f"http://127.0.0.1:{p}" for p in node_ports]},
                    "listen_host": "127.0.0.1",
                    "listen_port": port,
                    "admin_port": self._admin_port,
                    "health_check_path": "/ready",
                    "max_queue_length": _LONG_LINE,
                    "request_lines": False,  # no peer writes a line for each request either
                    "drain_timeout_secs": 1,
                    "spool_dir": str(directory),
                }
            )
        )
        return [[sys.executable, "-m", "proxy", "serve", "--config", str(config)]]

    def is_ready(self, port: int, node_count: int) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._admin_port, timeout=5)
        try:
            connection.request("GET", "/api/status")
            status = json.load(connection.getresponse())
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return [node["state"] for node in status["nodes"]] == ["idle"] * node_count


class HAProxy(Target):
    name = "haproxy"

    def missing(self) -> str | None:
        return None if shutil.which("haproxy") else "haproxy is not installed"

    def processes(self, node_ports: Sequence[int], port: int, directory: Path) -> list[list[str]]:
        servers = "\n".join(f"    server n{i} 127.0.0.1:{p}" for i, p in enumerate(node_ports))
        config = directory / "haproxy.cfg"
        config.write_text(_fill("haproxy.cfg", PORT=port, SERVERS=servers))
        return [["haproxy", "-q", "-db", "-f", str(config)]]


_RELAY = "proxy_request_buffering off; proxy_max_temp_file_size 0;"
_BUFFER_ALL = """client_body_buffer_size 256k; proxy_request_buffering on; proxy_buffering on;
            proxy_buffers 16 16k; proxy_max_temp_file_size 4096m;"""


def _nginx_command(node_ports: Sequence[int], port: int, directory: Path, buffering: str) -> list[str]:
    servers = "\n".join(f"        server 127.0.0.1:{p} max_fails=0;" for p in node_ports)
    config = directory / "nginx.conf"
    config.write_text(_fill("nginx.conf", PORT=port, SERVERS=servers, BUFFERING=buffering, DIR=directory))
    return ["nginx", "-c", str(config), "-e", "stderr"]


class Nginx(Target):
    """For relay figures only: it has no line."""

    name = "nginx"
    has_line = False

    def missing(self) -> str | None:
        return None if shutil.which("nginx") else "nginx is not installed"

    def processes(self, node_ports: Sequence[int], port: int, directory: Path) -> list[list[str]]:
        return [_nginx_command(node_ports, port, directory, _RELAY)]


class NginxBeforeHAProxy(Target):
    """nginx takes bodies whole, both ways, in front of HAProxy's line: the strongest set-up for slow
    clients."""

    name = "nginx+haproxy"

    def missing(self) -> str | None:
        return HAProxy().missing() or Nginx().missing()

    def processes(self, node_ports: Sequence[int], port: int, directory: Path) -> list[list[str]]:
        (inner_port,) = free_ports(1)
        return [
            *HAProxy().processes(node_ports, inner_port, directory),
            _nginx_command([inner_port], port, directory, _BUFFER_ALL),
        ]


class AiohttpProxy(Target):
    name = "aiohttp"

    def missing(self) -> str | None:
        return None if importlib.util.find_spec("aiohttp") else "aiohttp is not installed"

    def processes(self, node_ports: Sequence[int], port: int, directory: Path) -> list[list[str]]:
        urls = [f"http://127.0.0.1:{p}" for p in node_ports]
        return [[sys.executable, "-m", "benchmarks.peers.aiohttp_proxy", str(port), *urls]]


class RayServe(Target):
    """Its replicas are the nodes (see peers.ray_serve), so nothing that the nodes measure is known of it."""

    name = "ray-serve"

    def missing(self) -> str | None:
        return None if importlib.util.find_spec("ray") else "Ray is not installed (pip install 'ray[serve]')"

    def processes(self, node_ports: Sequence[int], port: int, directory: Path) -> list[list[str]]:
        load_cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:-1]))
        program = [sys.executable, "-m", "benchmarks.peers.ray_serve"]
        return [[*program, str(port), str(len(node_ports)), load_cores, str(directory)]]


SUBJECT: Target = FifoProxy()
PEERS: tuple[Target, ...] = (HAProxy(), Nginx(), NginxBeforeHAProxy(), AiohttpProxy(), RayServe())
