"""Nodes that are local commands, each on a free port of its own, for one machine and for tests.

    create -> running -> exited (by itself, or destroyed)

A node never outlives the proxy, however that ends: each runs under a guard (`process_guard.py`) that holds a
socket to us and stops the node when the socket ends. So after a restart there is nothing to adopt.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from proxy.errors import ProviderError
from proxy.providers.base import ListedNode
from proxy.providers.names import fresh_name

_log = logging.getLogger(__name__)
_GUARD = str(Path(__file__).with_name("process_guard.py"))
_STDERR = 2  # not sys.stderr: what the nodes print must not reach our standard output
_START_SECS = 30.0
_KILL_SECS = 2.0  # what a guard has beyond its grace before it is killed itself


@dataclass(slots=True)
class _Running:
    node: ListedNode
    port: int
    guard: asyncio.subprocess.Process
    line: socket.socket
    """Our end of the guard's socket; shutting it down stops the node."""
    pid: int = 0
    is_stopping: bool = False


class ProcessProvider:
    """`command`: `{port}` becomes the node's port and `{python}` this interpreter.

    A node that is told to stop has `grace_secs` after TERM, then its whole process group is killed.
    """

    kind = "process"
    can_scale = True
    is_shared = False

    def __init__(
        self, command: tuple[str, ...], *, name_prefix: str = "local", grace_secs: float = 5.0
    ) -> None:
        self.name_prefix = name_prefix
        self._command = command
        self._grace_secs = grace_secs
        self._running: dict[str, _Running] = {}

    async def start(self) -> None:
        pass

    def new_name(self) -> str:
        return fresh_name(self.name_prefix)

    def pid(self, node_id: str) -> int:
        """The process of a living node, which also is its process group. Raises KeyError for any other."""
        return self._running[node_id].pid

    async def list(self) -> list[ListedNode]:
        for node_id, running in [*self._running.items()]:
            if running.guard.returncode is not None and not running.is_stopping:
                _log.warning("node %s exited with code %d", node_id, running.guard.returncode)
                await self._stop(self._running.pop(node_id))
        return [running.node for running in self._running.values() if running.pid]

    async def create(self, name: str) -> ListedNode:
        """Start the command; the node's id is its name. Raises ProviderError where it cannot be started.

        A command that starts and then exits, be it because somebody took its port meanwhile, is a node that
        is gone from the next list.
        """
        if name in self._running:
            raise ProviderError(f"a node named {name} is running already")
        port = self._free_port()
        command = [
            part.replace("{port}", str(port)).replace("{python}", sys.executable) for part in self._command
        ]
        running = await self._spawn(name, port, command)
        self._running[name] = running
        try:
            async with asyncio.timeout(_START_SECS):
                said = await asyncio.get_running_loop().sock_recv(running.line, 4096)
        except TimeoutError:
            await self._forget(name)
            raise ProviderError(f"{command[0]} did not start within {_START_SECS:.0f} s") from None
        except BaseException:  # cancelled: nobody would ever destroy what nobody was told of
            await self._forget(name)
            raise
        word, _, rest = said.decode(errors="replace").strip().partition(" ")
        if word != "started":
            await self._forget(name)
            raise ProviderError(f"cannot start {command[0]}: {rest or 'its guard died'}")
        running.pid = int(rest)
        return running.node

    async def destroy(self, node_id: str) -> None:
        await self._forget(node_id)

    async def close(self) -> None:
        """Destroy every node: none can live on without us."""
        await asyncio.gather(*(self._forget(node_id) for node_id in [*self._running]))

    async def _spawn(self, name: str, port: int, command: Sequence[str]) -> _Running:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            guard = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", _GUARD, str(self._grace_secs), *command),
                stdin=theirs.fileno(),
                stdout=_STDERR,
                stderr=_STDERR,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise ProviderError(f"cannot start a process: {error}") from error
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        node = ListedNode(name, name, f"http://127.0.0.1:{port}", is_running=True, created_at=time.time())
        return _Running(node, port, guard, ours)

    async def _forget(self, node_id: str) -> None:
        running = self._running.get(node_id)
        if running is None:
            return
        await self._stop(running)
        self._running.pop(node_id, None)  # only now: until it is dead it is listed, for it may hold a GPU

    async def _stop(self, running: _Running) -> None:
        running.is_stopping = True
        with suppress(OSError):  # it has gone already
            running.line.shutdown(socket.SHUT_WR)  # not closed: a create may still be reading it
        try:
            async with asyncio.timeout(self._grace_secs + _KILL_SECS):
                code = await running.guard.wait()
        except TimeoutError:  # the guard itself is stuck (stopped, or starved)
            with suppress(ProcessLookupError):
                running.guard.kill()
            code = await running.guard.wait()
        running.line.close()
        if code < 0 and running.pid:  # the guard was killed, so it has not looked after the group
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(running.pid, signal.SIGKILL)

    def _free_port(self) -> int:
        """A port that is free now; somebody may take it before the node does, but no other node of ours."""
        taken = {running.port for running in self._running.values()}
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port: int = probe.getsockname()[1]
            if port not in taken:
                return port
