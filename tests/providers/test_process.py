from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

from proxy.errors import ProviderError
from proxy.providers.base import ListedNode
from proxy.providers.process import ProcessProvider
from tests.fakes import tiny_node
from tests.providers.waiting import is_alive, until, until_dead

NODE = ("{python}", tiny_node.__file__, "{port}")
Make = Callable[..., ProcessProvider]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    made: list[ProcessProvider] = []

    def build(*command: str, grace_secs: float = 5.0) -> ProcessProvider:
        made.append(ProcessProvider(command, grace_secs=grace_secs))
        return made[-1]

    yield build
    for provider in made:
        await provider.close()


def python(code: str) -> tuple[str, ...]:
    return ("{python}", "-c", textwrap.dedent(code))


async def until_answered(node: ListedNode) -> dict[str, int]:
    answers: list[dict[str, int]] = []

    async def has_answered() -> bool:
        try:
            async with httpx.AsyncClient(trust_env=False) as client:
                answers.append((await client.get(f"{node.url}/")).json())
        except httpx.TransportError:
            return False
        return True

    await until(has_answered, f"{node.url} answers")
    return answers[0]


async def until_file(path: Path) -> str:
    async def is_written() -> bool:
        return text_of(path).endswith("\n")

    await until(is_written, f"{path.name} is written")
    return text_of(path).strip()


def text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def test_each_node_runs_the_command_on_a_port_of_its_own(make: Make) -> None:
    provider = make(*NODE)
    nodes = await asyncio.gather(*(provider.create(provider.new_name()) for _ in range(3)))
    answers = [await until_answered(node) for node in nodes]
    assert [f"http://127.0.0.1:{answer['port']}" for answer in answers] == [node.url for node in nodes]
    assert len({answer["port"] for answer in answers}) == 3
    assert [answer["pid"] for answer in answers] == [provider.pid(node.id) for node in nodes]


async def test_a_node_that_exits_is_gone_from_the_next_list(make: Make) -> None:
    provider = make(*NODE)
    dead, alive = [await provider.create(provider.new_name()) for _ in range(2)]
    os.kill(provider.pid(dead.id), signal.SIGKILL)

    async def is_gone() -> bool:
        return await provider.list() == [alive]

    await until(is_gone, "only the living node is listed")


async def test_a_command_that_fails_at_once_is_a_node_that_is_gone(make: Make) -> None:
    provider = make(*python("raise SystemExit(3)"))
    await provider.create(provider.new_name())

    async def is_gone() -> bool:
        return await provider.list() == []

    await until(is_gone, "nothing is listed")


@pytest.mark.parametrize(
    ("program", "why"), [("no-such-program", "No such file"), ("/etc/passwd", "Permission denied")]
)
async def test_a_command_that_cannot_start_says_why(make: Make, program: str, why: str) -> None:
    provider = make(program, "{port}")
    with pytest.raises(ProviderError, match=f"cannot start {program}: .*{why}") as caught:
        await provider.create("local-1")
    assert not caught.value.may_have_worked
    assert await provider.list() == []


async def test_destroy_lets_a_node_end_by_itself(make: Make, tmp_path: Path) -> None:
    said = tmp_path / "said"
    provider = make(
        *python(f"""
            import signal, sys
            def leave(*_):
                open({str(said)!r}, "a").write("goodbye\\n")
                sys.exit()
            signal.signal(signal.SIGTERM, leave)
            open({str(said)!r}, "w").write("ready\\n")
            signal.pause()
        """)
    )
    node = await provider.create("local-1")
    assert await until_file(said) == "ready"
    await provider.destroy(node.id)
    assert text_of(said) == "ready\ngoodbye\n"


async def test_destroy_kills_the_whole_group_of_a_node_that_ignores_term(make: Make, tmp_path: Path) -> None:
    said = tmp_path / "said"
    provider = make(
        *python(f"""
            import os, signal, time
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            child = os.fork()
            if child:
                open({str(said)!r}, "w").write(str(child) + "\\n")
            time.sleep(1000)
        """),
        grace_secs=0.1,
    )
    node = await provider.create("local-1")
    child, parent = int(await until_file(said)), provider.pid(node.id)
    assert is_alive(child)
    await provider.destroy(node.id)
    await until_dead(parent)
    await until_dead(child)


async def test_what_a_node_leaves_behind_goes_with_it(make: Make, tmp_path: Path) -> None:
    said = tmp_path / "said"
    provider = make(
        *python(f"""
            import os, time
            child = os.fork()
            if child:
                open({str(said)!r}, "w").write(str(child) + "\\n")
            else:
                time.sleep(1000)
        """)
    )
    await provider.create("local-1")
    await until_dead(int(await until_file(said)))


async def test_a_guard_that_is_killed_takes_its_node_along(make: Make, tmp_path: Path) -> None:
    said = tmp_path / "said"
    provider = make(
        *python(f"""
            import os, time
            open({str(said)!r}, "w").write(str(os.getppid()) + "\\n")
            time.sleep(1000)
        """)
    )
    node = await provider.create("local-1")
    pid = provider.pid(node.id)
    os.kill(int(await until_file(said)), signal.SIGKILL)

    async def is_gone() -> bool:
        return await provider.list() == []

    await until(is_gone, "nothing is listed")
    await until_dead(pid)


async def test_a_create_that_is_cancelled_leaves_nothing(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = tmp_path / "stuck_guard.py"
    stuck.write_text("import time\ntime.sleep(1000)\n")
    monkeypatch.setattr("proxy.providers.process._GUARD", str(stuck))
    monkeypatch.setattr("proxy.providers.process._KILL_SECS", 0.1)
    provider = make(*NODE, grace_secs=0.1)
    creating = asyncio.create_task(provider.create("local-1"))

    async def is_spawned() -> bool:
        return bool(provider._running)

    await until(is_spawned, "its guard runs")
    guard = provider._running["local-1"].guard.pid
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    assert await provider.list() == []
    assert not is_alive(guard)


async def test_a_guard_that_does_not_start_is_given_up(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = tmp_path / "stuck_guard.py"
    stuck.write_text("import time\ntime.sleep(1000)\n")
    monkeypatch.setattr("proxy.providers.process._GUARD", str(stuck))
    monkeypatch.setattr("proxy.providers.process._START_SECS", 0.1)
    monkeypatch.setattr("proxy.providers.process._KILL_SECS", 0.1)
    provider = make(*NODE, grace_secs=0.1)
    with pytest.raises(ProviderError, match="did not start"):
        await provider.create("local-1")
    assert await provider.list() == []


async def test_a_system_that_starts_no_process_says_why(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.providers.process.sys.executable", "/no/such/python")
    with pytest.raises(ProviderError, match=r"cannot start a process: .*No such file"):
        await make(*NODE).create("local-1")


async def test_two_creates_of_one_name_are_refused(make: Make) -> None:
    provider = make(*NODE)
    await provider.create("local-1")
    with pytest.raises(ProviderError, match="running already"):
        await provider.create("local-1")


async def test_two_nodes_are_not_given_one_port(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = make(*NODE)
    first = await provider.create("local-1")
    same = int(str(first.url).rpartition(":")[2])
    ports = iter([same, same + 1])

    class Probe(socket.socket):
        def bind(self, address: object) -> None:
            pass

        def getsockname(self) -> tuple[str, int]:
            return "127.0.0.1", next(ports)

    with monkeypatch.context() as patched:
        patched.setattr("proxy.providers.process.socket.socket", Probe)
        assert provider._free_port() == same + 1


def test_no_node_outlives_a_proxy_that_is_killed(tmp_path: Path) -> None:
    program = textwrap.dedent(f"""
        import asyncio, os, signal
        from proxy.providers.process import ProcessProvider

        async def main():
            provider = ProcessProvider({NODE!r})
            nodes = [await provider.create(provider.new_name()) for _ in range(2)]
            print(*(provider.pid(node.id) for node in nodes), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

        asyncio.run(main())
    """)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=root, check=False
    )
    pids = [int(pid) for pid in done.stdout.split()]
    assert done.returncode == -signal.SIGKILL
    assert len(pids) == 2
    for pid in pids:
        asyncio.run(until_dead(pid))
