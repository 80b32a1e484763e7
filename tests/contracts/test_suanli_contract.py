"""The fake cloud answers and refuses as the document says; and the document is one that can be held to."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contracts.suanli import DOCUMENT, NEWER_PATHS, faults_of_answer, faults_of_request
from tests.fakes.suanli_cloud import Fault, SuanliCloud
from tests.providers.waiting import until, until_dead

CREATE, SEARCH, DETAIL, STOP = (
    f"/api/deployment/task/{name}" for name in ("create", "search", "detail", "stop")
)
CREATE_BODY: dict[str, Any] = DOCUMENT["paths"][CREATE]["post"]["requestBody"]["content"]["application/json"][
    "examples"
]["oneNode"]["value"]
QUERY = {"type": "Deployment", "status": "Running,Pending"}


def headers(**changes: str | None) -> dict[str, str]:
    given = {"token": "test-token", "timestamp": str(int(time.time() * 1000)), "version": "1.0.0", **changes}
    return {name: value for name, value in given.items() if value is not None}


@pytest.fixture
async def cloud() -> AsyncIterator[SuanliCloud]:
    made = SuanliCloud()
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def client(cloud: SuanliCloud) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=cloud.url, trust_env=False) as made:
        yield made


async def get(client: httpx.AsyncClient, path: str, query: dict[str, Any]) -> dict[str, Any]:
    """The answer's JSON, after it was held against the document."""
    return checked("GET", path, (await client.get(path, params=query, headers=headers())).json())


async def post(client: httpx.AsyncClient, path: str, body: object) -> dict[str, Any]:
    return checked("POST", path, (await client.post(path, json=body, headers=headers())).json())


def checked(method: str, path: str, answer: dict[str, Any]) -> dict[str, Any]:
    assert faults_of_answer(method, path, answer) == []
    return answer


# the document


def examples() -> Iterator[tuple[str, str, bool, Any]]:
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            for is_request, part in (
                (True, operation.get("requestBody")),
                (False, operation["responses"]["200"]),
            ):
                content = (part or {}).get("content", {}).get("application/json", {})
                if "example" in content:
                    yield method, path, is_request, content["example"]
                for example in content.get("examples", {}).values():
                    yield method, path, is_request, example["value"]


@pytest.mark.parametrize(("method", "path", "is_request", "value"), [*examples()])
def test_the_documents_own_examples_keep_it(method: str, path: str, is_request: bool, value: Any) -> None:
    if is_request:
        sent = headers() | {"content-type": "application/json"}
        assert faults_of_request(method, path, [], sent, json.dumps(value).encode()) == []
    else:
        assert faults_of_answer(method, path, value) == []


# answers


@pytest.mark.parametrize("no_address", ["null", "empty", "missing"])
async def test_a_life_as_the_document_tells_it(
    cloud: SuanliCloud, client: httpx.AsyncClient, no_address: Any
) -> None:
    cloud.no_address, cloud.start_delay = no_address, 0.1
    task_id = (await post(client, CREATE, CREATE_BODY))["data"]["task_id"]
    (task,) = (await get(client, SEARCH, QUERY))["data"]["results"]
    assert (task["task_id"], task["status"]) == (task_id, "Pending")
    assert all(port["url"] is None for port in task["services"][0]["remote_ports"])

    async def is_running() -> bool:
        status: str = (await get(client, DETAIL, {"task_id": task_id}))["data"]["status"]
        return status == "Running"

    await until(is_running, "the task runs")
    (task,) = (await get(client, SEARCH, QUERY))["data"]["results"]
    (port,) = task["services"][0]["remote_ports"]

    async def answers() -> bool:
        try:
            return (await client.get(f"{port['url']}/ready")).status_code == 200
        except httpx.TransportError:
            return False

    await until(answers, "its node answers")
    pid = cloud.tasks.pid(cloud.tasks.all[task_id])
    assert (await post(client, STOP, {"task_id": task_id}))["data"] is None
    await until_dead(pid)
    assert (await get(client, SEARCH, QUERY))["data"] == {"count": 0, "results": []}
    assert (await get(client, SEARCH, QUERY | {"status": "End"}))["data"]["count"] == 1
    assert cloud.refused == []


async def test_pages_and_their_default(cloud: SuanliCloud, client: httpx.AsyncClient) -> None:
    for number in range(12):
        cloud.add_task(f"pool-{number}")
    first = (await get(client, SEARCH, QUERY))["data"]
    second = (await get(client, SEARCH, QUERY | {"page": 2}))["data"]
    assert (first["count"], len(first["results"]), len(second["results"])) == (12, 10, 2)


@pytest.mark.parametrize(("match", "found"), [("exact", 1), ("prefix", 2), ("substring", 3)])
async def test_search_value_as_each_reading_has_it(
    cloud: SuanliCloud, client: httpx.AsyncClient, match: Any, found: int
) -> None:
    cloud.match = match
    for name in ("pool", "pool-1", "my-pool"):
        cloud.add_task(name)
    assert (await get(client, SEARCH, QUERY | {"search_value": "pool"}))["data"]["count"] == found


@pytest.mark.parametrize("path", NEWER_PATHS)
async def test_the_newer_paths_exist(cloud: SuanliCloud, client: httpx.AsyncClient, path: str) -> None:
    if path.endswith("create"):
        assert (await post(client, path, CREATE_BODY))["code"] == "0000"
    else:
        assert (await get(client, path, {"task_id": 1}))["data"] is None


async def test_a_bare_success_keeps_the_document_too(cloud: SuanliCloud, client: httpx.AsyncClient) -> None:
    cloud.bare_success = True
    task = cloud.add_task("pool-1")
    assert "data" not in await post(client, STOP, {"task_id": task.number})


# refusals


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"token": None}, "C001"),
        ({"token": "wrong"}, "C001"),
        ({"timestamp": None}, "Z001"),
        ({"timestamp": "1764490000"}, "Z001"),
        ({"timestamp": "1764490000000"}, "C002"),
        ({"version": None}, "Z001"),
        ({"version": "1.0"}, "Z001"),
        ({"sign_str": ""}, "Z001"),
        ({"sign_str": f"{'A' * 342}=="}, "C004"),
    ],
)
@pytest.mark.parametrize("with_4xx", [True, False])
async def test_headers_that_are_refused(
    cloud: SuanliCloud, client: httpx.AsyncClient, changes: dict[str, str | None], code: str, with_4xx: bool
) -> None:
    cloud.refuses_with_4xx = with_4xx
    response = await client.get(SEARCH, params=QUERY, headers=headers(**changes))
    answer = checked("GET", SEARCH, response.json())
    assert (answer["code"], answer["data"]) == (code, None)
    assert (response.status_code >= 400) is with_4xx
    assert len(cloud.refused) == 1


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"type": "Deployment"},
        {"status": "Running"},
        QUERY | {"type": "Job"},
        QUERY | {"status": "Pendi"},
        QUERY | {"status": "Running,Other"},
        QUERY | {"page": 0},
        QUERY | {"page": "one"},
        QUERY | {"page_size": 0},
        QUERY | {"limit": 5},
    ],
    ids=str,
)
async def test_queries_that_are_refused(
    cloud: SuanliCloud, client: httpx.AsyncClient, query: dict[str, Any]
) -> None:
    assert (await get(client, SEARCH, query))["code"] == "Z001"


def changed(**changes: object) -> dict[str, Any]:
    return {**CREATE_BODY, **changes}


SERVICE = CREATE_BODY["services"][0]


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        changed(task_name=""),
        changed(points=0),
        changed(points="1"),
        changed(unknown=1),
        changed(task_type="Job"),
        changed(resources=[]),
        changed(resources=[{}]),
        changed(resources=[{"mark": ""}]),
        changed(resources=[{"mark": {"mark": "an object"}}]),
        changed(services=[]),
        changed(services=[{**SERVICE, "service_image": ""}]),
        changed(services=[{**SERVICE, "remote_ports": [{"service_port": 70000}]}]),
        changed(services=[{**SERVICE, "remote_ports": [{"service_port": 80, "url": "x"}]}]),
        changed(services=[{**SERVICE, "env": [{"name": "A", "value": "1"}]}]),
        changed(services=[{**SERVICE, "start_script_v2": {"command": "x"}}]),
    ],
    ids=str,
)
async def test_creates_that_are_refused_make_nothing(
    cloud: SuanliCloud, client: httpx.AsyncClient, body: object
) -> None:
    assert (await post(client, CREATE, body))["code"] == "Z001"
    assert cloud.tasks.all == {}


@pytest.mark.parametrize("body", [{"task_id": "40001"}, {"task_id": 0}, {"task_id": 40002}, {}])
async def test_stops_that_are_refused(cloud: SuanliCloud, client: httpx.AsyncClient, body: object) -> None:
    task = cloud.add_task("pool-1")
    assert (await post(client, STOP, body))["code"] == "Z001"
    assert task.is_alive


async def test_a_body_that_is_not_json_or_not_called_so(
    cloud: SuanliCloud, client: httpx.AsyncClient
) -> None:
    for content, kind in ((b"{", "application/json"), (b'{"task_id": 1}', "text/plain")):
        response = await client.post(STOP, content=content, headers=headers() | {"content-type": kind})
        assert checked("POST", STOP, response.json())["code"] == "Z001"


async def test_calls_that_do_not_exist(cloud: SuanliCloud, client: httpx.AsyncClient) -> None:
    for method, path in (("POST", "/api/deployment/task/delete"), ("GET", STOP), ("POST", SEARCH)):
        assert (await client.request(method, path, headers=headers())).json()["code"] == "Z001"


# faults


async def test_a_dropped_create_is_done_or_not_as_the_test_says(
    cloud: SuanliCloud, client: httpx.AsyncClient
) -> None:
    cloud.fail_next("create", Fault(drops=True), Fault(drops=True, commits=True))
    for alive in (0, 1):
        with pytest.raises(httpx.TransportError):
            await client.post(CREATE, json=CREATE_BODY, headers=headers())
        assert len(cloud.tasks.alive()) == alive
    assert (await post(client, CREATE, CREATE_BODY))["code"] == "0000"
    assert cloud.tasks.most_alive == 2


async def test_a_task_may_be_stuck_in_pending(cloud: SuanliCloud, client: httpx.AsyncClient) -> None:
    cloud.start_delay = None
    await post(client, CREATE, CREATE_BODY)
    assert await cloud.tasks.nodes() == []
    assert (await get(client, SEARCH, QUERY))["data"]["results"][0]["status"] == "Pending"


# as a program


async def test_it_runs_as_a_program_and_leaves_no_node_when_it_is_killed() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fakes.suanli_cloud", "--port", str(port), "--start-delay", "0"),
        cwd=Path(__file__).parents[2],
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            created: list[int] = []
            addresses: list[str] = []

            async def is_created() -> bool:
                try:
                    created.append((await post(client, CREATE, CREATE_BODY))["data"]["task_id"])
                except httpx.TransportError:
                    return False
                return True

            async def has_answered() -> bool:
                (task,) = (await get(client, SEARCH, QUERY))["data"]["results"]
                addresses[:] = [entry["url"] for entry in task["services"][0]["remote_ports"] if entry["url"]]
                try:
                    pids.extend([(await client.get(url)).json()["pid"] for url in addresses])
                except httpx.TransportError:
                    return False
                return bool(pids)

            pids: list[int] = []
            await until(is_created, "it creates a task")
            await until(has_answered, "the task's node answers")
    finally:
        program.kill()
        await program.wait()
    await until_dead(pids[0])
