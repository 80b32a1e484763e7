"""The commands as a user types them: what they print, where, and their exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from proxy import __version__
from proxy.cli import main
from proxy.errors import ConfigError

STATUS: dict[str, Any] = {
    "version": "1.0.0",
    "uptime_secs": 3725.0,
    "queue": {
        "length": 7,
        "oldest_wait_secs": 61.5,
        "running": 1,
        "capacity": 4096,
        "joined": 10,
        "served": 9,
        "left": 2,
        "refused": 3,
    },
    "nodes": [
        {
            "id": "t-1",
            "name": "pool-[red]3f9a",
            "url": "http://10.0.0.1:3000",
            "state": "busy",
            "created_at": "2026-12-01T08:00:00Z",
            "ready_at": "2026-12-01T08:01:00Z",
            "last_processed_at": "2026-12-01T08:02:03Z",
            "served": 4,
            "last_probe": {"at": "2026-12-01T08:00:59Z", "status": 200, "error": None},
        },
        {
            "id": None,
            "name": "pool-b",
            "url": None,
            "state": "starting",
            "created_at": "2026-12-01T08:00:00Z",
            "ready_at": None,
            "last_processed_at": None,
            "served": 0,
            "last_probe": None,
        },
    ],
    "scaler": {
        "last_check_at": "2026-12-01T08:02:03Z",
        "last_scale_up_at": None,
        "last_scale_down_at": None,
        "last_error": "create: C010",
        "decisions": [
            {"at": "2026-12-01T08:01:02Z", "action": "up", "count": 1, "reason": "wait 121 s >= 120 s"}
        ],
    },
}


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("FIFO_PROXY_CONFIG", "FIFO_PROXY_ADMIN_TOKEN", "FIFO_PROXY_TRACES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def run(*args: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, args, env=env)


class AdminPort:
    """An admin port that gives its `answers` in turn, the last one again and again; 401 without its token."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = [(200, json.dumps(STATUS).encode())]
        self.token: str | None = None
        self.targets: list[str] = []
        port = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                port.targets.append(self.path)
                status, body = port.answers.pop(0) if len(port.answers) > 1 else port.answers[0]
                if port.token and self.headers["Authorization"] != f"Bearer {port.token}":
                    status = 401
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def admin() -> Iterator[AdminPort]:
    port = AdminPort()
    thread = threading.Thread(target=port.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield port
    port.server.shutdown()
    thread.join()
    port.server.server_close()


def test_the_module_is_the_program() -> None:
    done = subprocess.run([sys.executable, "-m", "proxy", "--version"], capture_output=True, text=True, check=True,
                          cwd=Path(__file__).parent.parent)  # fmt: skip
    assert done.stdout == f"fifo-proxy, version {__version__}\n"


@pytest.mark.parametrize(
    ("args", "environ", "expected"),
    [
        ((), {}, "config.json"),
        (("serve",), {}, "config.json"),
        (("--config", "a.json"), {}, "a.json"),
        (("serve", "--config", "a.json"), {"FIFO_PROXY_CONFIG": "b.json"}, "a.json"),
        ((), {"FIFO_PROXY_CONFIG": "b.json"}, "b.json"),
        ((), {"FIFO_PROXY_CONFIG": ""}, "config.json"),
    ],
)
@pytest.mark.parametrize("code", [0, 1])
def test_serve_is_the_default(
    monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], environ: dict[str, str], expected: str, code: int
) -> None:
    paths: list[Path] = []

    def run_app(path: Path) -> int:
        paths.append(path)
        return code

    app = types.ModuleType("proxy.serve")
    app.__dict__["run"] = run_app
    monkeypatch.setitem(sys.modules, "proxy.serve", app)
    assert run(*args, env=environ).exit_code == code
    assert paths == [Path(expected)]


def test_serve_tells_faults_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> int:
        raise ConfigError(["a: wrong", "b: wrong"])

    app = types.ModuleType("proxy.serve")
    app.__dict__["run"] = refuse
    monkeypatch.setitem(sys.modules, "proxy.serve", app)
    result = run("serve")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", "a: wrong\nb: wrong\n")


@pytest.mark.parametrize(
    "args", [("serv",), ("check", "--confg", "x"), ("demo-node",), ("demo-node", "--port", "x")]
)
def test_bad_usage_is_2(args: tuple[str, ...]) -> None:
    result = run(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


def test_check_prints_what_it_amounts_to(tmp_path: Path) -> None:
    provider = {"kind": "static", "nodes": ["http://node"]}
    (tmp_path / "config.json").write_text(json.dumps({"provider": provider, "max_nodes": 4}))
    result = run("check", env={"FIFO_PROXY_ADMIN_TOKEN": "sesame"})
    assert result.exit_code == 0
    shown = json.loads(result.stdout)
    assert (shown["admin_token"], shown["listen_port"], shown["provider"]) == ("***", 8080, provider)
    assert result.stderr == "warning: max_nodes: has no effect, static nodes are never scaled\n"
    assert "sesame" not in result.output


def test_check_prints_one_line_for_each_fault(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"max_node": 1, "min_nodes": "two"}')
    result = run("check", "--config", "bad.json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        'bad.json: min_nodes = "two": expected a whole number',
        'bad.json: max_node = 1: unknown key (did you mean "max_nodes"?)',
    ]


def test_check_without_a_file() -> None:
    result = run("check")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith("config.json: no such file")


def test_schema_is_json() -> None:
    result = run("schema")
    assert result.exit_code == 0
    assert "max_nodes" in json.loads(result.stdout)["properties"]


def test_status_shows_line_nodes_and_decisions(admin: AdminPort) -> None:
    result = run("status", "--admin", admin.url + "/")
    assert result.exit_code == 0
    assert admin.targets == ["/api/status"]
    text = " ".join(result.stdout.split())
    for shown in (
        "1 h 2 min",
        "7 of 4096",
        "1 min 1 s",
        "busy",
        "08:02:03",
        "wait 121 s >= 120 s",
        "create: C010",
    ):
        assert shown in text
    assert "[red]" in text  # what a node is called is no markup


def test_status_of_an_empty_house(admin: AdminPort) -> None:
    scaler = STATUS["scaler"] | {"decisions": [], "last_error": None}
    admin.answers = [(200, json.dumps(STATUS | {"nodes": [], "scaler": scaler}).encode())]
    result = run("status", "--admin", admin.url)
    assert (result.exit_code, result.stdout.count("none")) == (0, 2)


def test_status_as_json_is_what_the_port_said(admin: AdminPort) -> None:
    assert json.loads(run("status", "--admin", admin.url, "--json").stdout) == STATUS


@pytest.mark.parametrize("as_json", [True, False])
def test_watching_survives_a_restart(
    admin: AdminPort, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    body = json.dumps(STATUS).encode()
    admin.answers = [(200, body), (503, b""), (200, body)]
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("proxy.status_view.time.sleep", sleep)
    result = run(
        "status", "--admin", admin.url, "--watch", "--every", "0.5", *(["--json"] if as_json else [])
    )
    assert (result.exit_code, naps, len(admin.targets)) == (0, [0.5] * 3, 3)
    if as_json:
        seen = [json.loads(line) for line in result.stdout.splitlines()]
        assert (seen[0], list(seen[1]), seen[2]) == (STATUS, ["error"], STATUS)


def test_status_sends_the_token(admin: AdminPort) -> None:
    admin.token = "sesame"
    refused = run("status", "--admin", admin.url)
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert "FIFO_PROXY_ADMIN_TOKEN" in refused.stderr
    assert run("status", "--admin", admin.url, "--token", "sesame").exit_code == 0
    assert run("status", "--admin", admin.url, env={"FIFO_PROXY_ADMIN_TOKEN": "sesame"}).exit_code == 0


@pytest.mark.parametrize("answer", [(200, b"<html>"), (200, b"[]"), (200, b"{}"), (404, b"")])
def test_status_of_something_else_is_1(admin: AdminPort, answer: tuple[int, bytes]) -> None:
    admin.answers = [answer]
    result = run("status", "--admin", admin.url)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert "is it the admin port?" in result.stderr


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense", "http://[", "http://127.0.0.1:port"])
def test_status_that_cannot_be_reached_is_1(url: str) -> None:
    result = run("status", "--admin", url)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert url in result.stderr
