"""Stopping: drained before destroyed, never used again, paid until certainly gone; and what the list says."""

from __future__ import annotations

import pytest

from proxy.errors import ProviderError
from tests.fakes.provider import FakeProvider
from tests.fakes.virtual_time import virtual_time
from tests.scaling.world import World, seconds, settle


@virtual_time
async def test_idle_nodes_go_one_per_cooldown_down_to_the_minimum() -> None:
    cloud = FakeProvider(seconds)
    for _ in range(3):
        cloud.make()
    async with World(cloud, min_nodes=1) as world:
        await world.until(1000)
        assert world.elapsed("destroy") == [185, 365]
        assert world.states() == ["idle"]
        assert len(cloud.alive()) == 1
        assert world.loop.last_scale_down_at == world.began + 365
        assert world.stats.scale_actions == {("down", "idle"): 2}


@virtual_time
async def test_request_that_comes_while_the_last_node_is_destroyed_gets_another() -> None:
    """B65, B67: between the decision and the end of the destroy."""
    async with World(min_nodes=0) as world:
        world.join()
        await world.until(2)
        world.release(world.granted[0])
        world.cloud.destroy_secs = 30.0
        await world.until(186)
        assert world.states() == ["draining"]
        world.join()
        await world.until(186)
        assert len(world.granted) == 1  # not to the one that goes
        assert world.states() == ["draining", "starting"]
        await world.until(190)
        assert world.granted[1].node is not world.granted[0].node
        assert len(world.cloud.times("destroy")) == 1


@pytest.mark.parametrize("turns", range(6))
@virtual_time
async def test_request_in_every_turn_around_a_stop(turns: int) -> None:
    """B67: wherever the request falls, it is served, and by a node that is not being destroyed."""
    async with World(min_nodes=0) as world:
        world.join()
        await world.until(2)
        world.release(world.granted[0])
        await world.until(184.999)
        world.loop._check_timer.cancel()  # type: ignore[union-attr]  # the test says when it is checked
        world.began -= 0.001
        for turn in range(6):
            if turn == turns:
                world.join()
            if turn == 3:
                world.loop.check()
            await settle() if turn == 4 else None
        await world.until(200)
        assert len(world.granted) == 2
        serving = world.granted[1].node
        assert serving.state == "busy"
        assert [machine.id for machine in world.cloud.alive()] == [serving.id]


@virtual_time
async def test_full_house_waits_for_the_destroy_and_creates_in_the_same_moment() -> None:
    async with World(min_nodes=0, max_nodes=1) as world:
        world.join()
        await world.until(2)
        world.release(world.granted[0])
        world.cloud.destroy_secs = 32.5
        await world.until(186)
        world.join()
        await world.until(217)
        assert world.states() == ["draining"]
        await world.until(218)
        assert world.elapsed("create") == [0, 217.5]
        assert world.cloud.most_alive == 1


@virtual_time
async def test_failed_destroy_is_tried_again_and_its_node_stays_paid_and_unused() -> None:
    async with World(min_nodes=0, max_nodes=1) as world:
        world.join()
        await world.until(2)
        world.release(world.granted[0])
        world.cloud.destroy_fault = ProviderError("HTTP 500")
        await world.until(200)
        world.join()
        await world.until(260)
        assert world.elapsed("destroy") == [185, 190, 200, 220, 260]
        assert world.states() == ["draining"]
        assert len(world.granted) == 1
        assert world.error() == "destroy: HTTP 500"
        assert world.stats.scale_errors == {"destroy": 5}
        world.cloud.destroy_fault = None
        await world.until(345)
        assert len(world.granted) == 2
        assert world.cloud.most_alive == 1
        assert world.error() is None


@virtual_time
async def test_draining_node_that_the_list_lacks_is_gone() -> None:
    async with World(min_nodes=0) as world:
        world.join()
        await world.until(2)
        world.release(world.granted[0])
        world.cloud.destroy_fault = ProviderError("HTTP 500")
        await world.until(190)
        world.cloud.vanish(world.cloud.alive()[0])
        await world.until(196)
        assert world.states() == ["draining"]
        await world.until(210)
        assert not world.nodes
        assert world.error() is None
        destroys = len(world.cloud.times("destroy"))
        await world.until(1000)
        assert len(world.cloud.times("destroy")) == destroys


@virtual_time
async def test_list_that_trails_behind_a_destroy_brings_nothing_back() -> None:
    cloud = FakeProvider(seconds)
    cloud.list_lag_secs = 50.0
    async with World(cloud, min_nodes=0) as world:
        world.join()
        await world.until(2)
        world.release(world.granted[0])
        await world.until(1000)
        assert world.elapsed("destroy") == [185]
        assert not world.nodes


@virtual_time
async def test_node_that_outlives_its_destroy_is_destroyed_again_and_never_used() -> None:
    async with World(min_nodes=0) as world:
        world.join()
        await world.until(2)
        world.release(world.granted[0])
        world.cloud.destroy_does_nothing = True
        await world.until(186)
        assert not world.nodes
        await world.until(243)
        world.join()
        world.cloud.create_secs = 1000.0
        world.cloud.destroy_does_nothing = False
        world.cloud.destroy_secs = 10.0
        await world.until(256)
        assert sorted(world.states()) == ["draining", "starting"]
        await world.until(300)
        assert world.states() == ["starting"]
        assert len(world.granted) == 1
        assert not world.cloud.alive()


@virtual_time
async def test_stranger_with_our_prefix_is_adopted() -> None:
    async with World(min_nodes=0) as world:
        await world.until(20)
        machine = world.cloud.make(age=3600)
        await world.until(32)
        assert [(node.id, node.state) for node in world.nodes] == [(machine.id, "idle")]
        assert world.nodes[0].created_at == world.began + 20 - 3600
        assert world.stats.node_start.total == 0  # how long it took to start is not ours to tell
        assert world.loop.last_scale_up_at is None


@virtual_time
async def test_node_is_lost_when_two_lists_in_a_row_lack_it() -> None:
    cloud = FakeProvider(seconds)
    machine = cloud.make()
    async with World(cloud, min_nodes=0) as world:
        await world.until(20)
        machine.listed_until = seconds()
        await world.until(31)
        assert world.states() == ["idle"]
        machine.listed_until = None
        await world.until(46)
        machine.listed_until = seconds()
        await world.until(61)
        assert world.states() == ["idle"]  # two, but not in a row
        await world.until(76)
        assert not world.nodes


@virtual_time
async def test_lost_node_finishes_its_run_first() -> None:
    cloud = FakeProvider(seconds)
    machine = cloud.make()
    async with World(cloud, min_nodes=0) as world:
        world.join()
        await world.until(2)
        machine.listed_until = seconds()
        await world.until(100)
        assert world.states() == ["busy"]
        world.release(world.granted[0])
        assert not world.nodes
        world.join()
        await world.until(110)
        assert world.granted[1].node.id != machine.id


@virtual_time
async def test_lost_node_that_is_listed_again_stays() -> None:
    cloud = FakeProvider(seconds)
    machine = cloud.make()
    async with World(cloud, min_nodes=0) as world:
        world.join()
        await world.until(2)
        machine.listed_until = seconds()
        await world.until(50)
        machine.listed_until = None
        await world.until(65)
        world.release(world.granted[0])
        assert world.states() == ["idle"]


@virtual_time
async def test_node_that_stops_running_must_pass_its_probe_again() -> None:
    cloud = FakeProvider(seconds)
    machine = cloud.make()
    async with World(cloud, min_nodes=0) as world:
        await world.until(10)
        machine.is_running = False
        await world.until(16)
        assert world.states() == ["unready"]
        assert world.nodes[0].reason == "its provider says that it does not run"
        machine.is_running = True
        await world.until(32)
        assert world.states() == ["idle"]


@virtual_time
async def test_node_at_a_new_address_must_pass_its_probe_again() -> None:
    """B56: whatever answers at an address that has changed is not yet known to be this node."""
    cloud = FakeProvider(seconds)
    cloud.make()
    async with World(cloud, min_nodes=0, boot_secs=None) as world:
        await world.until(2)
        node = world.nodes[0]
        world.dispatcher.ready(node, seconds())
        node.url = "http://10.9.9.9:1"
        await world.until(16)
        assert node.state == "unready"
        assert node.url == "http://10.0.0.1:8000"
        assert node.reason == "its address has changed"


@virtual_time
async def test_seconds_are_counted() -> None:
    async with World(min_nodes=1, boot_secs=7.5) as world:
        await world.until(100)
        assert world.stats.node_paid_seconds == pytest.approx(100)
        assert world.stats.node_start.total == pytest.approx(7.5)
        assert sum(world.stats.node_start.counts) == 1


@pytest.mark.parametrize("goes", [True, False])
@virtual_time
async def test_nodes_stay_at_exit_unless_told_to_go(goes: bool) -> None:
    async with World(min_nodes=2, destroy_nodes_on_exit=goes) as world:
        world.join()
        await world.until(5)
    assert len(world.cloud.alive()) == (0 if goes else 2)
    assert world.cloud.counts()["create"] == 2


@pytest.mark.parametrize("drops", [True, False])
@virtual_time
async def test_creates_in_flight_at_exit_leave_nothing_behind(drops: bool) -> None:
    async with World(min_nodes=2, destroy_nodes_on_exit=True) as world:
        world.cloud.create_secs = 10.0
        world.cloud.drops_creates = drops
        await world.until(5)
    assert world.cloud.counts()["create"] == 2
    assert len(world.cloud.machines) == 2
    assert not world.cloud.alive()


@virtual_time
async def test_failed_destroy_at_exit_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async with World(min_nodes=1, destroy_nodes_on_exit=True) as world:
        await world.until(5)
        world.cloud.destroy_fault = ProviderError("HTTP 500")
    assert "a node was not destroyed at exit: HTTP 500" in caplog.messages


@virtual_time
async def test_poke_after_the_stop_does_nothing() -> None:
    async with World(min_nodes=0) as world:
        await world.until(5)
    world.join()
    await settle()
    assert not world.cloud.times("create")
