"""A Suanli cloud on this machine: the API as documented, strictly, with every task a real local node process.

    python -m tests.fakes.suanli_cloud --port 9000 --token secret

Every request is held against `tests/contracts/suanli-openapi.yaml` and refused for the least fault. What the
document leaves open is a switch (plain attributes of `SuanliCloud`), and what can go wrong is a `Fault`, for
one call or for all. `calls` is what was asked, `refused` what was wrong with it.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

from aiohttp import web
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.contracts.suanli import NEWER_PATHS, faults_of_request
from tests.fakes import tiny_node
from tests.fakes.suanli_tasks import Body, Task, Tasks

Match = Literal["exact", "prefix", "substring"]
NoAddress = Literal["null", "empty", "missing"]
NODE = ("{python}", tiny_node.__file__, "{port}")
SKEW_MS = 300_000


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with a call. Without `commits` it has no effect, unless it is a mere delay."""

    code: str | None = None
    message: str = "it does not work"
    status: int = 200
    text: str | None = None
    """An answer that is not JSON."""
    answer: Body | None = None
    """An answer as it stands."""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drops: bool = False
    commits: bool = False

    @property
    def is_done(self) -> bool:
        """Whether the call has its effect."""
        return self.commits or not (self.code or self.text is not None or self.answer or self.drops)


@dataclass(frozen=True, slots=True)
class Call:
    """`at`: monotonic seconds; `body`: of a POST; `query`: of a GET."""

    operation: str
    path: str
    at: float
    query: dict[str, str]
    body: Body | None


class Refusal(Exception):
    """What the API has against a call."""

    def __init__(self, code: str, message: str, status: int) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class SuanliCloud:
    """`start` it, then `url` is its base address. With a `public_key` every call must be signed."""

    def __init__(
        self,
        token: str = "test-token",
        *,
        command: tuple[str, ...] = NODE,
        public_key: rsa.RSAPublicKey | None = None,
    ) -> None:
        self.start_delay: float | None = 0.0  # None: stuck in Pending
        self.no_address: NoAddress = "empty"
        self.match: Match = "substring"
        self.refuses_with_4xx = False
        self.bare_success = False  # leaves `data` out where it is null
        self.unknown_detail: Literal["null", "refused"] = "null"
        self.page_cap = 1_000
        self.on_search: Callable[[int], None] | None = None  # called with the page before it is made
        self.always: dict[str, Fault] = {}
        self.calls: list[Call] = []
        self.refused: list[str] = []
        self.tasks = Tasks(command, lambda: self.start_delay)
        self.url = ""
        self._token = token
        self._public_key = public_key
        self._once: dict[str, deque[Fault]] = {}
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def close(self) -> None:
        """No process of a task outlives it."""
        if self._runner:
            await self._runner.cleanup()
        await self.tasks.close()

    # what a test does and asks

    def fail_next(self, operation: str, *faults: Fault) -> None:
        """The next calls of `create`, `search`, `detail` or `stop` go wrong, one fault each."""
        self._once.setdefault(operation, deque()).extend(faults)

    def counts(self) -> Counter[str]:
        return Counter(call.operation for call in self.calls)

    def bodies(self, operation: str) -> list[Body]:
        return [call.body for call in self.calls if call.operation == operation and call.body is not None]

    def add_task(
        self, name: str, status: str | None = "Running", url: str | None = None, port: int = 3000
    ) -> Task:
        """A task that was there before, ours or somebody else's; it has no process."""
        delay, self.start_delay = self.start_delay, None
        service = {"service_name": name, "service_image": "image", "remote_ports": [{"service_port": port}]}
        task = self.tasks.add({"task_name": name, "services": [service]})
        self.start_delay = delay
        task.status, task.url = status, url
        return task

    async def vanish(self, task: Task) -> None:
        """The node is gone, and the API knows nothing of it."""
        await self.tasks.stop(task)
        task.is_hidden = True

    # the API

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        operation = NEWER_PATHS.get(request.path, request.path).rpartition("/")[2]
        self.calls.append(
            Call(
                operation,
                request.path,
                time.monotonic(),
                dict(request.query),
                _object(body),
            )
        )
        once = self._once.get(operation)
        fault = once.popleft() if once else self.always.get(operation, Fault())
        try:
            self._check(request, body)
            data = await self._do(operation, self.calls[-1]) if fault.is_done else None
        except Refusal as refusal:
            self.refused.append(str(refusal))
            return _failure(refusal.code, str(refusal), refusal.status if self.refuses_with_4xx else 200)
        await asyncio.sleep(fault.delay)
        if fault.drops:
            if request.transport:
                request.transport.abort()
            return web.Response()
        if fault.text is not None:
            return web.Response(
                text=fault.text, status=fault.status, content_type="text/html", headers=fault.headers
            )
        if fault.answer is not None:
            return web.json_response(fault.answer, status=fault.status, headers=fault.headers)
        if fault.code is not None:
            return _failure(fault.code, fault.message, fault.status, fault.headers)
        answer = {"code": "0000", "message": "success", "data": data}
        if data is None and self.bare_success:
            del answer["data"]
        return web.json_response(answer)

    def _check(self, request: web.Request, body: bytes) -> None:
        if request.headers.get("token") != self._token:
            raise Refusal("C001", "token invalid", 401)
        if faults := faults_of_request(
            request.method, request.path, [*request.query.items()], request.headers, body
        ):
            raise Refusal("Z001", "; ".join(faults), 400)
        timestamp, signature = request.headers["timestamp"], request.headers.get("sign_str")
        if abs(int(timestamp) - time.time() * 1000) > SKEW_MS:
            raise Refusal("C002", "timestamp expired", 401)
        if (signature is None) != (self._public_key is None):
            raise Refusal("C004", "sign_str does not fit the mode of this key", 401)
        if self._public_key is not None and signature is not None:
            head = "\n".join((request.raw_path, request.headers["version"], timestamp, self._token, ""))
            try:
                self._public_key.verify(
                    base64.b64decode(signature), head.encode() + body, padding.PKCS1v15(), hashes.SHA256()
                )
            except InvalidSignature:
                raise Refusal("C005", "sign_str invalid", 401) from None

    async def _do(self, operation: str, call: Call) -> Body | None:
        if operation == "create":
            return {"task_id": self.tasks.add(call.body or {}).number}
        if operation == "search":
            return self._search(call.query)
        if operation == "detail":
            task = self._task(call.query["task_id"])
            if task is None and self.unknown_detail == "refused":
                raise Refusal("Z001", "任务不存在", 404)
            return task.detail(self.no_address) if task else None
        task = self._task((call.body or {})["task_id"])
        if task is None or task.status == "End":
            raise Refusal("Z001", "任务不存在或已结束", 400)
        await self.tasks.stop(task)
        return None

    def _task(self, number: str | int) -> Task | None:
        task = self.tasks.all.get(int(number))
        return None if task is None or task.is_hidden else task

    def _search(self, query: dict[str, str]) -> Body:
        page, size = int(query.get("page", 1)), min(int(query.get("page_size", 10)), self.page_cap)
        if self.on_search:
            self.on_search(page)
        states, wanted = query["status"].split(","), query.get("search_value")
        found = [
            task.summary(self.no_address)
            for task in reversed(self.tasks.all.values())  # newest first: pages shift at every create
            if not task.is_hidden
            and task.status in states
            and (wanted is None or self._matches(task.name, wanted))
        ]
        return {"count": len(found), "results": found[(page - 1) * size : page * size]}

    def _matches(self, name: str, wanted: str) -> bool:
        if self.match == "exact":
            return name == wanted
        return name.startswith(wanted) if self.match == "prefix" else wanted in name


def _object(body: bytes) -> Body | None:
    try:
        value = json.loads(body or b"null")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _failure(code: str, message: str, status: int, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"code": code, "message": message, "data": None}, status=status, headers=headers)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.suanli_cloud", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--token", default="test-token")
    parser.add_argument(
        "--start-delay", type=float, default=2.0, help="seconds in Pending; negative: for ever"
    )
    parser.add_argument("--no-address", choices=get_args(NoAddress), default="empty")
    parser.add_argument(
        "--drop-creates", action="store_true", help="commit each create, then drop the connection"
    )
    parser.add_argument("command", nargs="*", help="what a node runs, with {port} and {python}; after --")
    return parser.parse_args()


async def _serve(arguments: argparse.Namespace) -> None:
    cloud = SuanliCloud(arguments.token, command=tuple(arguments.command) or NODE)
    cloud.start_delay = None if arguments.start_delay < 0 else arguments.start_delay
    cloud.no_address = arguments.no_address
    if arguments.drop_creates:
        cloud.always["create"] = Fault(drops=True, commits=True)
    await cloud.start(arguments.port)
    print(f"listening on {cloud.url}", file=sys.stderr, flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await cloud.close()


if __name__ == "__main__":
    try:
        asyncio.run(_serve(_arguments()))
    except KeyboardInterrupt:
        sys.exit(130)
