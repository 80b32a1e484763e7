"""The image as users get it: built from the Dockerfile with a real engine, started, asked, stopped.

Needs root, podman and debootstrap. Where one is missing the tests skip and say why; on CI (`CI=true`) that
is a failure. No image registry is asked: the base image is a bare Debian of this machine's release, made
once and kept in the engine's own store. `CONTAINER_TEST_BASE` names another one, such as a real
python:3.12-slim.
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.container, pytest.mark.timeout(900)]

ROOT = Path(__file__).parent.parent
IMAGE = "localhost/fifo-proxy-test"
LABEL = "fifo-proxy-test"
# What a deployment should add: nothing is writable but /tmp, no capability is left.
HARDENED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")

# Prints the user of every process in the container.
OWNERS = "import glob, os; print(*(os.stat(path).st_uid for path in glob.glob('/proc/[0-9]*')))"


class Engine:
    """podman with settings of its own, and the containers it started."""

    def __init__(self, settings: Path) -> None:
        # runc and these limits also work where cgroups are hybrid or the machine is itself a container.
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = 20000 if hard == resource.RLIM_INFINITY else min(hard, 20000)
        settings.write_text(
            f'[containers]\ndefault_ulimits = ["nofile={files}:{files}", "nproc=8192:8192"]\n'
            '[engine]\nruntime = "runc"\n'
        )
        self.environ = os.environ | {"CONTAINERS_CONF": str(settings)}
        self.started: list[str] = []

    def run(self, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        command = ["podman", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=self.environ)

    def __call__(self, *arguments: str, timeout: float = 60) -> str:
        done = self.run(*arguments, timeout=timeout)
        assert done.returncode == 0, f"podman {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout.strip()

    def make_base(self, tag: str) -> None:
        """A Debian with `python`, its headers and `pip`, as python:*-slim has them, and a compiler, under `tag`."""
        release = _debian_release()
        packages = "ca-certificates,python3,python3-pip,python3-venv,python3-dev,gcc,libc6-dev"
        with tempfile.TemporaryDirectory() as directory:
            rootfs = Path(directory, "rootfs")
            done = subprocess.run(
                ["debootstrap", "--variant=minbase", f"--include={packages}", release, str(rootfs)],
                capture_output=True,
                text=True,
                timeout=600,
            )
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr
            for marker in rootfs.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
                marker.unlink()
            (rootfs / "usr/bin/python").symlink_to("python3")
            shutil.rmtree(rootfs / "var/cache/apt")
            packed = Path(directory, "rootfs.tar")
            subprocess.run(["tar", "-C", str(rootfs), "-cf", str(packed), "."], check=True, timeout=300)
            self("import", str(packed), tag, timeout=300)

    def build(self, base: str) -> None:
        """Build the Dockerfile; pip in it gets the PIP_* variables of out here and the files they name."""
        borrowed = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        mounts = {value for value in borrowed.values() if value.startswith("/") and Path(value).exists()}
        self(
            *("build", "--format", "docker", "--pull=never", "--label", LABEL, "--tag", IMAGE),
            *("--build-arg", f"BASE={base}"),
            *(f"--env={name}={value}" for name, value in borrowed.items()),
            *(f"--volume={path}:{path}:ro" for path in mounts),
            str(ROOT),
            timeout=600,
        )
        self("image", "prune", "--force", "--filter", f"label={LABEL}")

    def launch(self, *options: str) -> str:
        identity = self("run", "--detach", "--publish", "127.0.0.1::8080", *options, IMAGE)
        self.started.append(identity)
        return identity

    def start(self, *options: str) -> Container:
        return Container(self, self.launch(*options))


class Container:
    """A running image."""

    def __init__(self, engine: Engine, identity: str) -> None:
        self.engine = engine
        self.identity = identity
        self.port = int(engine("port", identity, "8080/tcp").rpartition(":")[2])

    def ask(self, path: str = "/", body: bytes = b"", timeout: float = 60) -> tuple[int, bytes]:
        """POST through the published port, as a user of the proxy does."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            link.request("POST", path, body=body)
            answer = link.getresponse()
            return answer.status, answer.read()
        finally:
            link.close()

    def run(self, *command: str) -> str:
        return self.engine("exec", self.identity, *command)

    def wait_until_healthy(self, within: float = 30) -> None:
        """Run the image's own HEALTHCHECK until it passes (podman's timer for it needs systemd)."""
        deadline = time.monotonic() + within
        while (check := self.engine.run("healthcheck", "run", self.identity)).returncode:
            is_hopeless = "not running" in check.stderr or time.monotonic() > deadline
            assert not is_hopeless, f"{check.stdout}{check.stderr}{self.logs()}"
            time.sleep(0.2)

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.run("fifo-proxy", "status", "--json"))
        return status

    def logs(self) -> str:
        logs = self.engine.run("logs", self.identity)
        return logs.stdout + logs.stderr

    def stop(self, within: int = 20) -> tuple[int, float]:
        """SIGTERM, and SIGKILL (exit 137) after `within` seconds: the exit code and the seconds it took."""
        began = time.monotonic()
        self.engine("stop", "--time", str(within), self.identity, timeout=within + 30)
        took = time.monotonic() - began
        return int(self.engine("inspect", "--format", "{{.State.ExitCode}}", self.identity)), took


def _debian_release() -> str:
    facts = dict(
        line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line
    )
    return facts["VERSION_CODENAME"] if facts.get("ID") == "debian" else "bookworm"


def _missing() -> str | None:
    lacks = [program for program in ("podman", "runc", "debootstrap") if shutil.which(program) is None]
    if os.geteuid() != 0:
        lacks.append("root")
    return f"the image is NOT tested here, for want of: {', '.join(lacks)}" if lacks else None


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    if reason := _missing():
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    engine = Engine(tmp_path_factory.mktemp("engine") / "containers.conf")
    base = os.environ.get("CONTAINER_TEST_BASE")
    if base is None:
        base = f"{IMAGE}-gcc-base:{_debian_release()}"
        if engine.run("image", "exists", base).returncode:
            engine.make_base(base)
    engine.build(base)
    try:
        yield engine
    finally:
        for identity in engine.started:
            engine("rm", "--force", "--time", "0", identity)


def write_config(directory: Path, **keys: Any) -> str:
    """The option that mounts a configuration, written with comments, where the image looks for it."""
    command = ["{python}", "-m", "proxy", "demo-node", "--port", "{port}", "--work", "0.5"]
    settings = {"provider": {"kind": "process", "command": command}, **keys}
    path = directory / "config.json"
    path.write_text(f"// mounted\n{json.dumps(settings)}\n")
    path.chmod(0o644)
    return f"--volume={path}:/app/config.json:ro"


def test_image_says_how_it_is_run(engine: Engine) -> None:
    (image,) = json.loads(engine("image", "inspect", IMAGE))
    config = image["Config"]
    assert config["User"] == "1000:1000"
    assert config["Entrypoint"] == ["fifo-proxy"]
    assert config["Cmd"] == ["serve"]
    assert set(config["ExposedPorts"]) == {"8080/tcp", "8081/tcp"}
    assert "FIFO_PROXY_CONFIG=/app/config.json" in config["Env"]
    assert image["Healthcheck"]["Test"][0] == "CMD"


def test_the_image_runs_the_compiled_build(engine: Engine) -> None:
    container = engine.start()
    container.wait_until_healthy()
    assert container.status()["build"] == "compiled"
    assert "(compiled)" in container.run("fifo-proxy", "--version")


def test_embedded_configuration_serves_at_once_without_rights(engine: Engine) -> None:
    container = engine.start(*HARDENED)
    container.wait_until_healthy()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda number: container.ask(f"/{number}?echo=body", b"painting"), range(4)))
    assert answers == [(200, b"painting")] * 4, container.logs()
    owners = container.run("python", "-c", OWNERS).split()
    assert len(owners) >= 3, "the proxy, a demo node, and the one that asks"
    assert set(owners) == {"1000"}
    assert container.status()["queue"]["served"] == 4
    code, took = container.stop()
    assert (code, took < 5) == (0, True), f"exit {code} after {took:.1f} s\n{container.logs()}"


def test_mounted_configuration_is_the_one_used(engine: Engine, tmp_path: Path) -> None:
    container = engine.start(write_config(tmp_path, min_nodes=2, max_nodes=2, max_queue_length=7), *HARDENED)
    container.wait_until_healthy()
    assert container.ask(body=b"hello")[0] == 200
    status = container.status()
    assert status["queue"]["capacity"] == 7
    assert len(status["nodes"]) == 2


def test_sigterm_lets_the_running_request_finish(engine: Engine, tmp_path: Path) -> None:
    container = engine.start(write_config(tmp_path))
    container.wait_until_healthy()
    assert container.ask(body=b"warm")[0] == 200
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(container.ask, "/?work=4", b"last")
        while container.status()["queue"]["running"] == 0:
            assert not answer.done(), "it was to be running when the signal comes"
        code, took = container.stop()
        assert answer.result()[0] == 200
    assert (code, took < 10) == (0, True), f"exit {code} after {took:.1f} s\n{container.logs()}"


def test_faulty_configuration_ends_the_container_with_2(engine: Engine, tmp_path: Path) -> None:
    identity = engine.launch(write_config(tmp_path, max_node=3))
    assert engine("wait", identity) == "2"
    logs = engine.run("logs", identity)
    assert "max_nodes" in logs.stdout + logs.stderr, "a typo names the near key"
