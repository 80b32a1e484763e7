"""The tasks of the fake Suanli cloud: each is a real local process once its start delay is over.

Pending -> Running -> End (stopped, or vanished); Paused and Other only where a test says so
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from proxy.providers.base import ListedNode
from proxy.providers.process import ProcessProvider

Body = dict[str, Any]
_BEIJING = timezone(timedelta(hours=8))


@dataclass(slots=True, eq=False)
class Task:
    """`number`: its id. A task of somebody else has no process and is always as the test made it."""

    number: int
    name: str
    body: Body
    status: str | None = "Pending"
    url: str | None = None
    created_at: str = field(default_factory=lambda: datetime.now(_BEIJING).isoformat(timespec="microseconds"))
    is_hidden: bool = False
    """The API has forgotten it, though its process may live."""

    @property
    def is_alive(self) -> bool:
        """Whether somebody pays for it."""
        return self.status not in ("End", "Paused")

    def summary(self, no_address: Literal["null", "empty", "missing"]) -> Body:
        """As task/search shows it. The process is what the first port leads to; `no_address`: what stands for
        an address that is not there yet."""
        ports = [
            port["service_port"] for service in self.body["services"] for port in service["remote_ports"]
        ]
        entries: list[Body] = [
            {
                "url": self.url and (f"https://port-{port}.invalid" if index else self.url),
                "service_port": port,
            }
            for index, port in enumerate(ports)
        ]
        if self.url is None and no_address == "empty":
            entries = []
        elif self.url is None and no_address == "missing":
            entries = entries[1:]
        service = self.body["services"][0]
        return {
            "task_id": self.number,
            "task_name": self.name,
            "status": self.status,
            "points": self.body.get("points", 1),
            "runing_points": int(self.status == "Running"),
            "billing_value": 0,
            "forecast_value": 0,
            "create_time": self.created_at,
            "resources": [],
            "services": [
                {
                    "service_id": self.number + 10_000,
                    "service_name": service["service_name"],
                    "service_image": service["service_image"],
                    "remote_ports": entries,
                }
            ],
        }

    def detail(self, no_address: Literal["null", "empty", "missing"]) -> Body:
        """As task/detail shows it."""
        task = self.summary(no_address)
        more = ("env", "shared_mem_size", "storage_config", "share_storage_config", "nas_storage_config")
        nothing = dict.fromkeys((*more, "health_checks", "start_script_v2"))
        strategies = ("scheduler_strategy", "task_qos", "load_balance", "dynamic_pod_strategy")
        registry = ("namespace", "repository_username", "repository_password")
        return {
            **task,
            **dict.fromkeys((*strategies, *registry)),
            "task_type": "Deployment",
            "billing_points": task["runing_points"],
            "services": [{**nothing, **service} for service in task["services"]],
        }


class Tasks:
    """Every task there ever was, in order of creation. `most_alive`: how many were paid for at once."""

    def __init__(self, command: tuple[str, ...], start_delay: Callable[[], float | None]) -> None:
        self.all: dict[int, Task] = {}
        self.most_alive = 0
        self._processes = ProcessProvider(command, name_prefix="task", grace_secs=1.0)
        self._start_delay = start_delay
        self._starts: dict[int, asyncio.Task[None]] = {}

    def alive(self) -> list[Task]:
        return [task for task in self.all.values() if task.is_alive]

    def add(self, body: Body) -> Task:
        """A new task; it becomes Running after the start delay, never where that is None."""
        task = Task(40_001 + len(self.all), body["task_name"], body)
        self.all[task.number] = task
        self.most_alive = max(self.most_alive, len(self.alive()))
        delay = self._start_delay()
        if delay is not None:
            self._starts[task.number] = asyncio.create_task(self._start(task, delay))
        return task

    async def stop(self, task: Task) -> None:
        """To End, its process killed."""
        task.status, task.url = "End", None
        if start := self._starts.pop(task.number, None):
            start.cancel()
            await asyncio.gather(start, return_exceptions=True)
        await self._processes.destroy(str(task.number))

    def pid(self, task: Task) -> int:
        """The process that is the task's node."""
        return self._processes.pid(str(task.number))

    async def nodes(self) -> list[ListedNode]:
        """The processes that live; a node may die without its task being told."""
        return await self._processes.list()

    async def close(self) -> None:
        for start in self._starts.values():
            start.cancel()
        await asyncio.gather(*self._starts.values(), return_exceptions=True)
        await self._processes.close()

    async def _start(self, task: Task, delay: float) -> None:
        await asyncio.sleep(delay)
        node = await self._processes.create(str(task.number))
        task.status, task.url = "Running", node.url
