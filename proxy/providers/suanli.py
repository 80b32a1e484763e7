"""Nodes in the Suanli (Gongji) cloud: one task with one node each.

    Pending -> Running (with an address: may be probed) -> End, by `stop`, for good; Paused has no node

- Ours is every task whose name begins with the configured `task_name`, whoever made it. Names are compared
  here: what the API's own `search_value` matches is documented nowhere.
- Other, null and whatever comes next mean "cannot tell": listed, hence counted as paid, but not running.
- A task that we knew and that the search lacks is asked for by its id before it is left out: the search has
  no filter for Other, may trail behind creates, and its pages shift while they are read.
- An address is that of the task; the gateway spreads a task's nodes over it. So `points` is always 1.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, TypeAdapter, ValidationError

from proxy.config.kinds import base_url
from proxy.errors import ProviderError
from proxy.providers.base import ListedNode
from proxy.providers.names import fresh_name
from proxy.providers.suanli_api import PassingError, SuanliApi

_log = logging.getLogger(__name__)
_SEARCH_PATH = "/api/deployment/task/search"
_STOP_PATH = "/api/deployment/task/stop"
_PAGE_SIZE = 100
_PASSES = 3  # over the pages, while the number of tasks changes under us
_MISSES = 3  # lists for which a task that cannot be asked for is still taken to live
_GONE = ("Paused", "End")
_BEIJING = timezone(timedelta(hours=8))


class _Task(BaseModel):
    task_id: int
    task_name: str
    status: str | None = None
    services: Any = None
    create_time: Any = None


class _Port(BaseModel):
    service_port: int | None = None
    url: str | None = None


class _Service(BaseModel):
    remote_ports: list[_Port] | None = None


class _Page(BaseModel):
    count: int
    results: list[dict[str, Any]]


class _Created(BaseModel):
    task_id: int


_SERVICES = TypeAdapter(list[_Service])


class SuanliProvider:
    """`request`: the body of a create, `task_name` being the prefix of the names of our tasks.
    `proxy_port`: which of a task's published ports is meant."""

    kind = "suanli"
    can_scale = True
    is_shared = True

    def __init__(
        self,
        api: SuanliApi,
        request: Mapping[str, Any],
        *,
        proxy_port: int,
        create_path: str = "/api/deployment/task/create",
        detail_path: str = "/api/deployment/task/detail",
    ) -> None:
        self.name_prefix: str = request["task_name"]
        self._api = api
        self._request = request
        self._proxy_port = proxy_port
        self._create_path = create_path
        self._detail_path = detail_path
        self._known: dict[str, ListedNode] = {}
        self._misses: Counter[str] = Counter()

    async def start(self) -> None:
        await self._api.open()

    async def close(self) -> None:
        await self._api.close()

    def new_name(self) -> str:
        return fresh_name(self.name_prefix)

    async def list(self) -> list[ListedNode]:
        nodes = await self._search()
        for known in [known for known in self._known.values() if known.id not in nodes]:
            if node := await self._look_up(known):
                nodes[node.id] = node
            else:
                self._forget(known.id)
        self._known |= nodes
        return list(nodes.values())

    async def create(self, name: str) -> ListedNode:
        body = {"task_type": "Deployment", **self._request, "task_name": name, "points": 1}
        data = await self._api.write(self._create_path, body)
        try:
            task_id = _Created.model_validate(data).task_id
        except ValidationError:
            raise ProviderError("Suanli answered create without a task_id", may_have_worked=True) from None
        node = ListedNode(str(task_id), name, None, is_running=False, created_at=time.time())
        self._known[node.id] = node
        return node

    async def destroy(self, node_id: str) -> None:
        try:
            await self._api.write(_STOP_PATH, {"task_id": int(node_id)})
        except PassingError:
            raise
        except ProviderError:  # how a task that has ended is refused is documented nowhere
            if not await self._is_gone(node_id):
                raise
        self._forget(node_id)

    def _forget(self, node_id: str) -> None:
        self._known.pop(node_id, None)
        self._misses.pop(node_id, None)

    # the search

    async def _search(self) -> dict[str, ListedNode]:
        """Our tasks by id. Read again where pages have shifted; what any pass saw counts, since a node too
        many for one list does no harm, but one too few may be replaced."""
        nodes: dict[str, ListedNode] = {}
        for _ in range(_PASSES):
            if await self._read_pages(nodes):
                break
        return nodes

    async def _read_pages(self, nodes: dict[str, ListedNode]) -> bool:
        """Add our tasks of every page; whether the pages were one picture: one total, and as many tasks."""
        seen: set[str] = set()
        totals: set[int] = set()
        for number in itertools.count(1):
            query: dict[str, str | int] = {
                "type": "Deployment",
                "status": "Running,Pending",
                "page": number,
                "page_size": _PAGE_SIZE,
            }
            page = self._page(await self._api.read(_SEARCH_PATH, query))
            rows = {f"{row.get('task_id')} {row.get('task_name')}": row for row in page.results}
            nodes |= {node.id: node for node in map(self._ours, rows.values()) if node}
            totals.add(page.count)
            is_over = rows.keys() <= seen  # nothing new: past the end, or an API that does not page
            seen |= rows.keys()
            if is_over or len(seen) >= page.count:
                break
        return totals == {len(seen)}

    @staticmethod
    def _page(data: object) -> _Page:
        try:
            return _Page.model_validate(data)
        except ValidationError:  # above all no `data`: an empty list would mean that every node is gone
            raise PassingError("Suanli answered task/search without results") from None

    def _ours(self, row: dict[str, Any]) -> ListedNode | None:
        if not str(row.get("task_name")).startswith(self.name_prefix):
            return None
        try:
            return self._node(_Task.model_validate(row))
        except ValidationError:
            _log.warning("task %s of Suanli cannot be read: it has no id", row.get("task_name"))
            return None

    def _node(self, task: _Task) -> ListedNode | None:
        if task.status in _GONE:
            return None
        url = _address(task.services, self._proxy_port)
        is_running = task.status == "Running" and url is not None
        created_at = _unix_secs(task.create_time)
        return ListedNode(
            str(task.task_id), task.task_name, url, is_running=is_running, created_at=created_at
        )

    # one task

    async def _look_up(self, known: ListedNode) -> ListedNode | None:
        """A task that the search lacks; None where it is gone, or where that cannot be learned for long."""
        try:
            task = await self._detail(known.id)
        except PassingError as error:
            self._misses[known.id] += 1
            if self._misses[known.id] > _MISSES:
                return None
            _log.warning("node %s is not listed and cannot be asked for: %s", known.name, error)
            return replace(known, is_running=False)
        except ProviderError:
            return None
        self._misses.pop(known.id, None)
        return self._node(task) if task else None

    async def _is_gone(self, node_id: str) -> bool:
        """Whether the API says that there is no such task (any more); False where it does not say."""
        try:
            task = await self._detail(node_id)
        except PassingError:
            return False
        except ProviderError:  # it may refuse ids that it does not know, or this path: the search decides
            try:
                return node_id not in await self._search()
            except ProviderError:
                return False
        return task is None or task.status == "End"

    async def _detail(self, node_id: str) -> _Task | None:
        """None: `data` is null, which is what an unknown id gives."""
        data = await self._api.read(self._detail_path, {"task_id": node_id})
        try:
            return None if data is None else _Task.model_validate(data)
        except ValidationError:
            raise PassingError("Suanli answered task/detail without a task") from None


def _address(services: object, port: int) -> str | None:
    """`http(s)://host[:port]` of the published port, None while there is none: no list, no entry, no url."""
    try:
        entries = [
            entry for service in _SERVICES.validate_python(services) for entry in service.remote_ports or ()
        ]
    except ValidationError:
        return None
    for entry in entries:
        if entry.service_port == port and entry.url:
            try:
                parts = urlsplit(base_url(entry.url if "://" in entry.url else f"https://{entry.url}"))
            except ValueError:
                continue
            return f"{parts.scheme}://{parts.netloc}"
    return None


def _unix_secs(create_time: object) -> float | None:
    """RFC 3339 as the API writes it, Beijing time where it names no zone; None where it cannot be read."""
    try:
        at = datetime.fromisoformat(str(create_time))
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=_BEIJING)).timestamp()
