"""Tasks as nodes: which are ours, what their states mean, where their address is, pages, create, destroy."""

from __future__ import annotations

import time
from typing import Any

import pytest

from proxy.errors import ProviderError
from proxy.providers.suanli import _address, _unix_secs
from tests.fakes.suanli_cloud import Fault, NoAddress, SuanliCloud
from tests.providers.conftest import REQUEST, MakeSuanli
from tests.providers.waiting import until

URL = "https://deployment-77-k3v9q2ma-3000.550w.link"


def names(nodes: list[Any]) -> list[str]:
    return sorted(node.name for node in nodes)


# which are ours


async def test_ours_is_what_begins_with_the_task_name(cloud: SuanliCloud, make_suanli: MakeSuanli) -> None:
    for name in ("pool-a-1", "pool-a", "pool-abc", "Pool-a-2", "my-pool-a-3", "pool-b-4"):
        cloud.add_task(name, url=URL)
    provider = await make_suanli()
    assert names(await provider.list()) == ["pool-a", "pool-a-1", "pool-abc"]


@pytest.mark.parametrize("match", ["exact", "prefix", "substring"])
async def test_the_list_does_not_hang_on_what_search_value_matches(
    cloud: SuanliCloud, make_suanli: MakeSuanli, match: Any
) -> None:
    cloud.match = match
    cloud.add_task("pool-a")
    cloud.add_task("pool-a-1")
    assert names(await (await make_suanli()).list()) == ["pool-a", "pool-a-1"]


async def test_each_search_says_which_states_and_types_it_means(
    cloud: SuanliCloud, make_suanli: MakeSuanli
) -> None:
    await (await make_suanli()).list()
    (call,) = cloud.calls
    assert call.query == {"type": "Deployment", "status": "Running,Pending", "page": "1", "page_size": "100"}
    assert cloud.refused == []


# states and addresses


@pytest.mark.parametrize(
    ("status", "url", "listed"),
    [
        ("Pending", None, (None, False)),
        ("Pending", URL, (URL, False)),
        ("Running", None, (None, False)),
        ("Running", "", (None, False)),
        ("Running", URL, (URL, True)),
        ("Paused", URL, None),
        ("End", URL, None),
    ],
)
async def test_what_a_state_means(
    cloud: SuanliCloud, make_suanli: MakeSuanli, status: str, url: str | None, listed: object
) -> None:
    cloud.add_task("pool-a-1", status, url)
    nodes = await (await make_suanli()).list()
    assert [(node.url, node.is_running) for node in nodes] == ([] if listed is None else [listed])


@pytest.mark.parametrize("status", ["Other", None, "Migrating"])
async def test_a_task_of_unclear_state_is_paid_but_does_not_run(
    cloud: SuanliCloud, make_suanli: MakeSuanli, status: str | None
) -> None:
    task = cloud.add_task("pool-a-1", url=URL)
    provider = await make_suanli()
    assert [node.is_running for node in await provider.list()] == [True]
    task.status = status  # from now on no status filter finds it
    for _ in range(3):
        assert [node.is_running for node in await provider.list()] == [False]
    task.status = "Running"
    assert [node.is_running for node in await provider.list()] == [True]


async def test_a_task_of_unclear_state_that_the_search_shows(
    cloud: SuanliCloud, make_suanli: MakeSuanli
) -> None:
    row = cloud.add_task("pool-a-1", None, URL).summary("null")
    cloud.fail_next("search", Fault(answer={"code": "0000", "data": {"count": 1, "results": [row]}}))
    assert [(node.url, node.is_running) for node in await (await make_suanli()).list()] == [(URL, False)]


@pytest.mark.parametrize("no_address", ["null", "empty", "missing"])
async def test_a_node_runs_once_it_has_an_address(
    cloud: SuanliCloud, make_suanli: MakeSuanli, no_address: NoAddress
) -> None:
    cloud.no_address, cloud.start_delay = no_address, 0.1
    provider = await make_suanli()
    node = await provider.create("pool-a-1")
    assert [(node.url, node.is_running) for node in await provider.list()] == [(None, False)]

    async def is_running() -> bool:
        return (await provider.list())[0].is_running

    await until(is_running, "the node runs")
    assert (await provider.list())[0].url == cloud.tasks.all[int(node.id)].url


@pytest.mark.parametrize(
    ("services", "address"),
    [
        (None, None),
        ([], None),
        ("garbage", None),
        ([{}], None),
        ([{"remote_ports": None}], None),
        ([{"remote_ports": []}], None),
        ([{"remote_ports": [{"service_port": 3000}]}], None),
        ([{"remote_ports": [{"service_port": 3000, "url": None}]}], None),
        ([{"remote_ports": [{"service_port": 3000, "url": ""}]}], None),
        ([{"remote_ports": [{"service_port": 8188, "url": URL}]}], None),
        ([{"remote_ports": [{"service_port": 8188, "url": "x"}, {"service_port": 3000, "url": URL}]}], URL),
        ([{"remote_ports": []}, {"remote_ports": [{"service_port": 3000, "url": URL}]}], URL),
        ([{"remote_ports": [{"service_port": 3000, "url": f"{URL}/"}]}], URL),
        ([{"remote_ports": [{"service_port": 3000, "url": URL[8:]}]}], URL),
        ([{"remote_ports": [{"service_port": 3000, "url": "http://[::1"}]}], None),
        ([{"remote_ports": [{"service_port": 3000, "url": "ftp://host"}]}], None),
    ],
)
def test_where_an_address_is_found(services: object, address: str | None) -> None:
    assert _address(services, 3000) == address


@pytest.mark.parametrize(
    ("text", "secs"),
    [
        ("2026-11-30T09:00:00.000000+08:00", 1_796_000_400.0),
        ("2026-11-30T01:00:00.5Z", 1_796_000_400.5),
        ("2026-11-30 09:00:00", 1_796_000_400.0),
        ("yesterday", None),
        (None, None),
        (17, None),
    ],
)
def test_create_time_is_unix_seconds(text: object, secs: float | None) -> None:
    assert _unix_secs(text) == secs


# pages


@pytest.mark.parametrize("page_cap", [1, 7, 1000])
async def test_every_page_is_read(cloud: SuanliCloud, make_suanli: MakeSuanli, page_cap: int) -> None:
    cloud.page_cap = page_cap
    for number in range(15):
        cloud.add_task(f"pool-a-{number:02}" if number % 2 else f"other-{number:02}")
    nodes = await (await make_suanli()).list()
    assert names(nodes) == [f"pool-a-{number:02}" for number in range(1, 15, 2)]
    assert cloud.counts()["search"] == -(-15 // page_cap)


async def test_a_task_that_is_added_while_pages_are_read_doubles_none(
    cloud: SuanliCloud, make_suanli: MakeSuanli
) -> None:
    cloud.page_cap = 2
    for number in range(5):
        cloud.add_task(f"pool-a-{number}")

    def add_once(page: int) -> None:
        if page == 2 and len(cloud.tasks.all) == 5:
            cloud.add_task("pool-a-5")

    cloud.on_search = add_once
    nodes = await (await make_suanli()).list()
    assert names(nodes) == [f"pool-a-{number}" for number in range(6)]


async def test_a_task_that_ends_while_pages_are_read_hides_none(
    cloud: SuanliCloud, make_suanli: MakeSuanli
) -> None:
    cloud.page_cap = 2
    tasks = [cloud.add_task(f"pool-a-{number}") for number in range(5)]

    def end_newest(page: int) -> None:
        if page == 2:
            tasks[4].status = "End"  # everything after it moves up by one, out of the page that comes next

    cloud.on_search = end_newest
    nodes = await (await make_suanli()).list()
    assert {f"pool-a-{number}" for number in range(4)} <= set(names(nodes))


async def test_an_api_that_does_not_page_is_not_asked_for_ever(
    cloud: SuanliCloud, make_suanli: MakeSuanli
) -> None:
    row = cloud.add_task("pool-a-1", url=URL).summary("null")
    answer = {"code": "0000", "message": None, "data": {"count": 3, "results": [row]}}
    cloud.always["search"] = Fault(answer=answer)
    assert names(await (await make_suanli()).list()) == ["pool-a-1"]
    assert cloud.counts()["search"] == 6


async def test_a_row_that_cannot_be_read_costs_no_other(cloud: SuanliCloud, make_suanli: MakeSuanli) -> None:
    row = cloud.add_task("pool-a-1", url=URL).summary("null")
    rows = [row, {"task_name": None}, {**row, "task_name": "pool-a-2", "task_id": None}, {"odd": 1}]
    cloud.fail_next("search", Fault(answer={"code": "0000", "data": {"count": 4, "results": rows}}))
    assert names(await (await make_suanli()).list()) == ["pool-a-1"]


@pytest.mark.parametrize(
    "data", [None, {}, {"count": 0, "results": None}, {"count": None, "results": []}, [], "text"]
)
async def test_an_answer_without_results_is_no_empty_list(
    cloud: SuanliCloud, make_suanli: MakeSuanli, data: object
) -> None:
    cloud.add_task("pool-a-1")
    cloud.always["search"] = Fault(answer={"code": "0000", "message": "success", "data": data})
    with pytest.raises(ProviderError, match="without results"):
        await (await make_suanli()).list()


async def test_a_page_that_fails_fails_the_list(cloud: SuanliCloud, make_suanli: MakeSuanli) -> None:
    cloud.page_cap = 1
    cloud.add_task("pool-a-1")
    cloud.add_task("pool-a-2")
    cloud.fail_next("search", Fault(delay=0.001), Fault(code="Z001", message="odd"))
    with pytest.raises(ProviderError, match="Z001 odd"):
        await (await make_suanli()).list()


# a known task that the search lacks


@pytest.mark.parametrize("unknown_detail", ["null", "refused"])
async def test_a_node_that_vanishes_is_gone_from_the_next_list(
    cloud: SuanliCloud, make_suanli: MakeSuanli, unknown_detail: Any
) -> None:
    cloud.unknown_detail = unknown_detail
    provider = await make_suanli()
    await provider.create("pool-a-1")
    assert len(await provider.list()) == 1
    await cloud.vanish(cloud.tasks.alive()[0])
    assert await provider.list() == []
    assert await provider.list() == []
    assert cloud.counts()["detail"] == 1


@pytest.mark.parametrize("status", ["Paused", "End"])
async def test_a_node_that_was_paused_or_ended_by_hand_is_gone(
    cloud: SuanliCloud, make_suanli: MakeSuanli, status: str
) -> None:
    task = cloud.add_task("pool-a-1", url=URL)
    provider = await make_suanli()
    assert len(await provider.list()) == 1
    task.status = status
    assert await provider.list() == []


async def test_a_search_that_trails_behind_a_create_does_not_hide_it(
    cloud: SuanliCloud, make_suanli: MakeSuanli
) -> None:
    provider = await make_suanli()
    await provider.create("pool-a-1")
    nothing = {"code": "0000", "message": None, "data": {"count": 0, "results": []}}
    cloud.fail_next("search", Fault(answer=nothing))
    assert names(await provider.list()) == ["pool-a-1"]


async def test_a_task_that_cannot_be_asked_for_counts_for_three_lists(
    cloud: SuanliCloud, make_suanli: MakeSuanli
) -> None:
    task = cloud.add_task("pool-a-1", url=URL)
    provider = await make_suanli()
    await provider.list()
    task.status = "Other"
    cloud.always["detail"] = Fault(text="<h1>Bad Gateway</h1>", status=502)
    assert [[node.is_running for node in await provider.list()] for _ in range(4)] == [[False]] * 3 + [[]]


@pytest.mark.parametrize("path", ["/api/deployment/task/detail", "/api/task/deployment/detail"])
async def test_both_generations_of_detail(cloud: SuanliCloud, make_suanli: MakeSuanli, path: str) -> None:
    task = cloud.add_task("pool-a-1", url=URL)
    provider = await make_suanli(detail_path=path)
    await provider.list()
    task.status = "Other"
    assert len(await provider.list()) == 1
    assert cloud.calls[-1].path == path


async def test_a_detail_that_is_no_task_tells_nothing(cloud: SuanliCloud, make_suanli: MakeSuanli) -> None:
    task = cloud.add_task("pool-a-1", url=URL)
    provider = await make_suanli()
    await provider.list()
    task.status = "Other"
    cloud.always["detail"] = Fault(answer={"code": "0000", "data": {"odd": 1}})
    assert [node.is_running for node in await provider.list()] == [False]
    cloud.always["stop"] = Fault(code="Z001", message="not now")
    with pytest.raises(ProviderError, match="not now"):
        await provider.destroy(str(task.number))


# create


async def test_a_create_passes_on_what_the_user_wrote(cloud: SuanliCloud, make_suanli: MakeSuanli) -> None:
    provider = await make_suanli({"repository_username": "me", "load_balance": {"type": "RoundRobin"}})
    node = await provider.create("pool-a-k3v9q2ma")
    assert cloud.bodies("create") == [
        {
            **REQUEST,
            "task_type": "Deployment",
            "task_name": "pool-a-k3v9q2ma",
            "repository_username": "me",
            "load_balance": {"type": "RoundRobin"},
        }
    ]
    assert cloud.refused == []
    assert (node.url, node.is_running) == (None, False)
    assert node.created_at == pytest.approx(time.time(), abs=5)


async def test_a_create_always_asks_for_one_node(cloud: SuanliCloud, make_suanli: MakeSuanli) -> None:
    without_points = {key: value for key, value in REQUEST.items() if key != "points"}
    provider = await make_suanli()
    provider._request = without_points
    await provider.create("pool-a-1")
    assert cloud.bodies("create")[0]["points"] == 1


@pytest.mark.parametrize("path", ["/api/deployment/task/create", "/api/task/deployment/create"])
async def test_both_generations_of_create(cloud: SuanliCloud, make_suanli: MakeSuanli, path: str) -> None:
    provider = await make_suanli(create_path=path)
    await provider.create("pool-a-1")
    assert [call.path for call in cloud.calls] == [path]


async def test_the_newer_create_takes_env_as_a_list(cloud: SuanliCloud, make_suanli: MakeSuanli) -> None:
    services = [{**REQUEST["services"][0], "env": [{"name": "A", "value": "1"}]}]
    provider = await make_suanli({"services": services}, create_path="/api/task/deployment/create")
    await provider.create("pool-a-1")
    assert cloud.bodies("create")[0]["services"] == services
    older = await make_suanli({"services": services})
    with pytest.raises(ProviderError, match=r"body services\.0\.env"):
        await older.create("pool-a-2")


async def test_a_task_that_was_made_unnoticed_is_found_by_its_name(
    cloud: SuanliCloud, make_suanli: MakeSuanli
) -> None:
    cloud.fail_next("create", Fault(drops=True, commits=True))
    provider = await make_suanli()
    name = provider.new_name()
    with pytest.raises(ProviderError) as caught:
        await provider.create(name)
    assert caught.value.may_have_worked
    assert cloud.counts()["create"] == 1
    assert names(await provider.list()) == [name]


# destroy


async def test_destroy_stops_the_task(cloud: SuanliCloud, make_suanli: MakeSuanli) -> None:
    provider = await make_suanli()
    node = await provider.create("pool-a-1")
    await provider.destroy(node.id)
    assert cloud.bodies("stop") == [{"task_id": int(node.id)}]
    assert [task.status for task in cloud.tasks.all.values()] == ["End"]


@pytest.mark.parametrize("bare", [True, False])
async def test_a_success_may_lack_its_data(cloud: SuanliCloud, make_suanli: MakeSuanli, bare: bool) -> None:
    cloud.bare_success = bare
    provider = await make_suanli()
    node = await provider.create("pool-a-1")
    await provider.destroy(node.id)
    assert cloud.tasks.alive() == []


@pytest.mark.parametrize("unknown_detail", ["null", "refused"])
@pytest.mark.parametrize("with_4xx", [True, False])
async def test_destroy_of_a_task_that_vanished_is_no_error(
    cloud: SuanliCloud, make_suanli: MakeSuanli, unknown_detail: Any, with_4xx: bool
) -> None:
    cloud.unknown_detail, cloud.refuses_with_4xx = unknown_detail, with_4xx
    provider = await make_suanli()
    node = await provider.create("pool-a-1")
    await cloud.vanish(cloud.tasks.alive()[0])
    await provider.destroy(node.id)


@pytest.mark.parametrize("code", ["C010", "C001", "Z001"])
async def test_destroy_that_is_refused_for_a_living_task_is_an_error(
    cloud: SuanliCloud, make_suanli: MakeSuanli, code: str
) -> None:
    provider = await make_suanli()
    node = await provider.create("pool-a-1")
    cloud.always["stop"] = Fault(code=code, message="not now")
    with pytest.raises(ProviderError, match=f"{code} not now"):
        await provider.destroy(node.id)
    cloud.always["detail"] = Fault(text="not found", status=404)
    with pytest.raises(ProviderError, match=f"{code} not now"):
        await provider.destroy(node.id)
    cloud.always["detail"] = cloud.always["search"] = Fault(drops=True)
    with pytest.raises(ProviderError, match=f"{code} not now"):
        await provider.destroy(node.id)


async def test_destroy_is_sent_once(cloud: SuanliCloud, make_suanli: MakeSuanli) -> None:
    provider = await make_suanli()
    node = await provider.create("pool-a-1")
    cloud.fail_next("stop", Fault(drops=True, commits=True))
    with pytest.raises(ProviderError) as caught:
        await provider.destroy(node.id)
    assert caught.value.may_have_worked
    assert cloud.counts()["stop"] == 1
    assert await provider.list() == []
