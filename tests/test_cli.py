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

from proxy import __version__, build_kind
from proxy.cli import main
from proxy.errors import ConfigError

STATUS: dict[str, Any] = {
    "version": "1.0.0",
    "uptime_secs": 3725.0,
    "health": {"state": "ok", "reasons": []},
    "held": {"scaling": None, "dispatch": {"by": "alice", "at": "2026-12-01T08:02:00.000Z"}},
    "needs_restart": ["listen_port"],
    "jobs": {
        "store": "down",
        "accepted": 9,
        "queued": 3,
        "running": 0,
        "succeeded": 5,
        "failed": 1,
        "unknown": 0,
        "expired": 0,
        "cancelled": 0,
        "stored_bytes": 70,
        "webhooks": {"delivered": 0, "failed": 0, "given_up": 0},
    },
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
            "reason": None,
            "will_drain": True,
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
            "reason": None,
            "will_drain": False,
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
    "provider_errors": [
        {
            "at": "2026-12-01T08:01:03Z",
            "operation": "create",
            "detail": "C010: no \x1b[2Jstock",
            "count": 3,
            "mended_at": None,
        }
    ],
    "actions": [
        {
            "at": "2026-12-01T08:02:00Z",
            "by": "alice",
            "client": "10.0.0.9",
            "action": "hold_dispatch",
            "target": "",
            "result": "nothing is started until dispatch is resumed; 1 running go on",
        }
    ],
}
QUEUE: dict[str, Any] = {
    "length": 7,
    "waiting": [
        {
            "place": 1,
            "request_id": "r-1",
            "method": "POST",
            "path": "/v1/[b]images",
            "age_secs": 61.5,
            "size_bytes": 2048,
            "client": "10.0.0.9",
        }
    ],
}
DEGRADED = {
    "state": "degraded",
    "reasons": [
        {"code": "token_refused", "detail": "list: 401 bad key", "since": "2026-12-01T08:00:01.000Z"}
    ],
}


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("FIFO_PROXY_CONFIG", "FIFO_PROXY_ADMIN_TOKEN", "FIFO_PROXY_TRACES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def run(*args: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, args, env=env)


class AdminPort:
    """An admin port that gives its `answers` for the status in turn, the last one again and again, and `ordered`
    for every order; 401 without its token."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = [(200, json.dumps(STATUS).encode())]
        self.ordered: tuple[int, bytes] = (200, b"{}")
        self.token: str | None = None
        self.targets: list[str] = []
        self.orders: list[tuple[str, dict[str, Any]]] = []
        port = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.startswith("/api/queue"):
                    self._answer(200, json.dumps(QUEUE).encode())
                    return
                port.targets.append(self.path)
                self._answer(*(port.answers.pop(0) if len(port.answers) > 1 else port.answers[0]))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.headers["Content-Type"] == "application/json"
                port.orders.append((self.path, body))
                self._answer(*port.ordered)

            def _answer(self, status: int, body: bytes) -> None:
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
    assert done.stdout == f"fifo-proxy, version {__version__} ({build_kind()})\n"


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


def test_status_shows_everything_within_80_columns(admin: AdminPort) -> None:
    admin.answers = [(200, json.dumps(STATUS | {"health": DEGRADED}).encode())]
    result = run("status", "--admin", admin.url + "/", env={"COLUMNS": "80"})
    assert result.exit_code == 1
    assert admin.targets == ["/api/status"]
    assert max(map(len, result.stdout.splitlines())) <= 80
    text = " ".join(result.stdout.split())
    for shown in (
        "up 1 h 2 min: degraded",
        "08:00:01 token_refused list: 401 bad key",
        "dispatch is held by alice since 08:02:00",
        "only after a restart: listen_port",
        "7 of 4096 waiting, the oldest for 1 min 1 s; 1 running",
        "jobs: 3 queued, 5 succeeded, 1 failed; their database is down",
        "1 1 min 1 s POST /v1/[b]images 2048 10.0.0.9 r-1",
        "busy (drains)",
        "http://10.0.0.1:3000",
        "08:02:03",
        "up by 1 wait 121 s >= 120 s",
        "3 create: C010: no \\x1b[2Jstock",
        "alice hold dispatch",
    ):
        assert shown in text
    assert "[red]" in text  # what a node is called is no markup
    assert text.index("degraded") < text.index("4096") < text.index("busy")


def test_status_of_an_empty_house(admin: AdminPort, monkeypatch: pytest.MonkeyPatch) -> None:
    scaler = STATUS["scaler"] | {"decisions": [], "last_error": None}
    empty = STATUS | {"jobs": None, "nodes": [], "scaler": scaler, "provider_errors": [], "actions": []}
    admin.answers = [(200, json.dumps(empty).encode())]
    result = run("status", "--admin", admin.url)
    assert result.exit_code == 0
    assert "no node" in result.stdout
    assert "no scaling decision yet" in result.stdout
    assert "jobs" not in result.stdout


def test_status_as_json_is_what_the_port_said(admin: AdminPort) -> None:
    result = run("status", "--admin", admin.url, "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, STATUS | {"waiting": QUEUE["waiting"]})
    admin.answers = [(200, json.dumps(STATUS | {"health": DEGRADED}).encode())]
    result = run("status", "--admin", admin.url, "--json")
    assert (result.exit_code, json.loads(result.stdout)["health"]) == (1, DEGRADED)


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
        whole = STATUS | {"waiting": QUEUE["waiting"]}
        assert (seen[0], list(seen[1]), seen[2]) == (whole, ["error"], whole)


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


# orders


@pytest.mark.parametrize(
    ("args", "path", "body"),
    [
        (("node", "drain", "n-1"), "/api/nodes/n-1/drain", {}),
        (("node", "replace", "[::1]:80"), "/api/nodes/%5B%3A%3A1%5D%3A80/replace", {}),
        (("node", "resume", "n/1"), "/api/nodes/n%2F1/resume", {}),
        (("queue", "remove", "r-1"), "/api/queue/r-1/remove", {}),
        (("scaling", "hold"), "/api/scaling/hold", {}),
        (("scaling", "resume"), "/api/scaling/resume", {}),
        (("scaling", "set", "4"), "/api/scaling/nodes", {"count": 4}),
        (("dispatch", "hold"), "/api/dispatch/hold", {}),
        (("dispatch", "resume"), "/api/dispatch/resume", {}),
    ],
)
def test_an_order_is_given_and_its_result_printed(
    admin: AdminPort, args: tuple[str, ...], path: str, body: dict[str, Any]
) -> None:
    admin.token = "sesame"
    admin.ordered = (200, json.dumps({"action": "drain_node", "target": "n-1", "result": "done"}).encode())
    result = run(*args, "--admin", admin.url, "--token", "sesame", "--by", "alice")
    assert (result.exit_code, result.stdout) == (0, "drain node n-1: done\n")
    assert admin.orders == [(path, body | {"by": "alice"})]


def test_an_order_without_a_name_has_that_of_the_user(admin: AdminPort) -> None:
    admin.ordered = (200, json.dumps(STATUS["actions"][0]).encode())
    result = run("dispatch", "hold", "--admin", admin.url, env={"LOGNAME": "bob"})
    assert result.stdout.startswith("hold dispatch: nothing is started")
    assert admin.orders == [("/api/dispatch/hold", {"by": "bob"})]


@pytest.mark.parametrize("code", [400, 404, 409])
def test_an_order_that_is_refused_is_1_and_says_why(admin: AdminPort, code: int) -> None:
    admin.ordered = (code, b'{"detail": "it is drained already"}')
    result = run("node", "drain", "n-1", "--admin", admin.url)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "fifo-proxy: it is drained already\n")


def test_an_order_needs_the_token(admin: AdminPort) -> None:
    admin.token = "sesame"
    result = run("scaling", "hold", "--admin", admin.url, env={"FIFO_PROXY_ADMIN_TOKEN": "wrong"})
    assert (result.exit_code, result.stdout) == (1, "")
    assert "FIFO_PROXY_ADMIN_TOKEN" in result.stderr


@pytest.mark.parametrize(
    "args", [("scaling", "set", "-1"), ("scaling", "set", "x"), ("node", "drain"), ("node", "x")]
)
def test_an_order_that_makes_no_sense_is_2(args: tuple[str, ...]) -> None:
    assert run(*args).exit_code == 2


def test_the_queue_as_a_table_and_as_json(admin: AdminPort) -> None:
    result = run("queue", "list", "--admin", admin.url)
    text = " ".join(result.stdout.split())
    assert "1 1 min 1 s POST /v1/[b]images 2048 10.0.0.9 r-1" in text
    assert text.endswith("7 waiting, 6 of them not shown")
    assert json.loads(run("queue", "list", "--admin", admin.url, "--json").stdout) == QUEUE
    assert run("queue", "list", "--admin", "http://127.0.0.1:1").exit_code == 1
