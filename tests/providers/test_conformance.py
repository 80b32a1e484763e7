"""What every provider keeps, whichever engine is behind it. A new engine joins by one more `_world`."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from proxy.config import parse
from proxy.errors import ProviderError
from proxy.providers import build
from proxy.providers.base import ListedNode, Provider
from tests.fakes import tiny_node
from tests.fakes.suanli_cloud import SuanliCloud
from tests.providers.conftest import MakeSuanli
from tests.providers.waiting import until

pytestmark = pytest.mark.usefixtures("world")


@dataclass
class World:
    """A started provider. `unknown_id`: well formed, but nobody's. `others`: nodes that are not ours."""

    provider: Provider
    unknown_id: str
    others: tuple[str, ...] = ()


@pytest.fixture(params=["process", "static", "suanli"])
async def world(
    request: pytest.FixtureRequest, cloud: SuanliCloud, make_suanli: MakeSuanli
) -> AsyncIterator[World]:
    if request.param == "suanli":
        cloud.add_task("somebody-elses", url="https://somebody.invalid")
        yield World(await make_suanli(), "99999", ("somebody-elses",))
        return
    section = {
        "process": {"kind": "process", "command": ["{python}", tiny_node.__file__, "{port}"]},
        "static": {"kind": "static", "nodes": ["http://127.0.0.1:3000", "http://127.0.0.1:3001"]},
    }[request.param]
    provider = build(parse({"provider": section}))
    await provider.start()
    yield World(provider, "local-unknown")
    await provider.close()


def skip_unless_scaling(world: World) -> Provider:
    if not world.provider.can_scale:
        pytest.skip("nodes are fixed")
    return world.provider


async def until_running(provider: Provider, name: str) -> ListedNode:
    found: list[ListedNode] = []

    async def is_running() -> bool:
        found[:] = [node for node in await provider.list() if node.name == name and node.is_running]
        return bool(found)

    await until(is_running, f"{name} runs")
    return found[0]


async def test_names_are_fresh_and_ours(world: World) -> None:
    names = [world.provider.new_name() for _ in range(50)]
    assert len(set(names)) == 50
    assert all(name.startswith(world.provider.name_prefix) for name in names)
    assert all(re.fullmatch(r".+-[a-z0-9]{8}", name) for name in names)


async def test_ids_are_texts_and_distinct(world: World) -> None:
    if world.provider.can_scale:
        for _ in range(2):
            await world.provider.create(world.provider.new_name())
    nodes = await world.provider.list()
    assert len(nodes) == len({node.id for node in nodes}) == 2
    assert all(isinstance(node.id, str) and node.id for node in nodes)


async def test_a_running_node_has_an_origin_for_an_address(world: World) -> None:
    if world.provider.can_scale:
        name = world.provider.new_name()
        await world.provider.create(name)
        await until_running(world.provider, name)
    for node in await world.provider.list():
        assert node.is_running
        assert re.fullmatch(r"https?://[^/]+", node.url or "")


async def test_what_is_created_is_listed_at_once_under_the_same_id(world: World) -> None:
    provider = skip_unless_scaling(world)
    name = provider.new_name()
    created = await provider.create(name)
    assert created.name == name
    assert [(node.id, node.name) for node in await provider.list()] == [(created.id, name)]


async def test_a_created_node_tells_when_it_was_made(world: World) -> None:
    provider = skip_unless_scaling(world)
    created = await provider.create(provider.new_name())
    (listed,) = await provider.list()
    assert created.created_at is not None
    assert listed.created_at == pytest.approx(created.created_at, abs=5)


async def test_destroy_takes_one_node_and_no_other(world: World) -> None:
    provider = skip_unless_scaling(world)
    goes, stays = [await provider.create(provider.new_name()) for _ in range(2)]
    await provider.destroy(goes.id)
    assert [node.id for node in await provider.list()] == [stays.id]


async def test_destroy_of_a_running_node(world: World) -> None:
    provider = skip_unless_scaling(world)
    created = await provider.create(provider.new_name())
    await until_running(provider, created.name)
    await provider.destroy(created.id)
    assert await provider.list() == []


async def test_destroy_again_is_no_error(world: World) -> None:
    provider = skip_unless_scaling(world)
    created = await provider.create(provider.new_name())
    await provider.destroy(created.id)
    await provider.destroy(created.id)
    assert await provider.list() == []


async def test_destroy_of_what_never_was_is_no_error(world: World) -> None:
    provider = skip_unless_scaling(world)
    await provider.destroy(world.unknown_id)


async def test_what_cannot_be_done_is_a_provider_error(world: World) -> None:
    if world.provider.can_scale:
        pytest.skip("it can be done")
    for doing in (world.provider.create("node"), world.provider.destroy("node")):
        with pytest.raises(ProviderError) as caught:
            await doing
        assert not caught.value.may_have_worked


async def test_other_peoples_nodes_are_not_listed(world: World) -> None:
    assert not {node.name for node in await world.provider.list()} & set(world.others)


async def test_close_may_come_twice(world: World) -> None:
    await world.provider.close()
    await world.provider.close()
