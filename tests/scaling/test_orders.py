"""What an operator orders: within the limits, busy nodes after their runs, and also while scaling is held."""

from __future__ import annotations

import pytest

from proxy.dispatch.nodes import NodeState
from proxy.errors import NotPossibleNow, ProviderError
from tests.fakes.provider import FakeProvider
from tests.fakes.virtual_time import virtual_time
from tests.scaling.world import World, seconds, settle


def make_static() -> FakeProvider:
    cloud = FakeProvider(seconds, can_scale=False)
    cloud.make()
    return cloud


# drain


@virtual_time
async def test_an_idle_node_goes_at_once_and_the_floor_is_kept() -> None:
    async with World(min_nodes=2) as world:
        await world.until(3)
        node = world.nodes[0]
        assert world.loop.orders.drain(node) == "destroyed now; min_nodes will have another one made"
        with pytest.raises(NotPossibleNow, match="drained already"):
            world.loop.orders.drain(node)
        with pytest.raises(NotPossibleNow, match="being destroyed"):
            world.loop.orders.restore(node)
        world.join()
        assert world.granted[0].node is not node
        await world.until(10)
        assert world.states() == ["busy", "idle"]
        assert node not in world.nodes
        assert world.loop.decisions[1].reason == f"drain {node.name}, as ordered"
        assert world.stats.scale_actions["down", "order"] == 1


@virtual_time
async def test_a_busy_node_ends_its_run_first() -> None:
    async with World(min_nodes=0, max_nodes=1) as world:
        world.join(2)
        await world.until(3)
        [lease] = world.granted
        assert world.loop.orders.drain(lease.node) == "destroyed after its run"
        await world.until(100)
        assert (world.states(), world.elapsed("destroy")) == (["busy"], [])
        world.release(lease)
        assert world.states() == ["draining"]
        await world.until(110)
        assert len(world.cloud.times("destroy")) == 1
        assert world.granted[1].node is not lease.node, "who waits gets another one"


@virtual_time
async def test_a_drain_is_taken_back_while_the_run_lasts() -> None:
    async with World(min_nodes=1) as world:
        await world.until(3)
        world.join()
        [lease] = world.granted
        world.loop.orders.drain(lease.node)
        assert world.loop.orders.restore(lease.node) == "it stays in use"
        with pytest.raises(NotPossibleNow, match="it is busy, not drained"):
            world.loop.orders.restore(lease.node)
        world.release(lease)
        await world.until(30)
        assert (world.states(), world.elapsed("destroy")) == (["idle"], [])


@virtual_time
async def test_a_node_that_cannot_be_destroyed_is_out_of_use_until_resumed() -> None:
    async with World(make_static()) as world:
        await world.until(3)
        [node] = world.nodes
        assert world.loop.orders.drain(node) == "out of use now, until it is resumed"
        world.join()
        await world.until(1000)
        assert (world.states(), world.granted, world.cloud.counts()["destroy"]) == (["draining"], [], 0)
        assert world.loop.orders.restore(node) == "in use again once its probe answers 200"
        assert world.states() == ["unready"]
        await world.until(1002)
        assert (world.states(), len(world.granted)) == (["busy"], 1)
        assert world.loop.orders.drain(node) == "out of use after its run, until it is resumed"
        world.release(world.granted[0])
        await world.until(1010)
        assert world.states() == ["draining"]


@virtual_time
async def test_a_starting_node_whose_create_is_on_its_way_is_drained_too() -> None:
    cloud = FakeProvider(seconds)
    cloud.create_secs = 20.0
    async with World(cloud, min_nodes=1) as world:
        await world.until(1)
        world.loop.orders.hold()
        assert world.loop.orders.drain(world.nodes[0]) == "destroyed now"
        await world.until(200)
        assert (world.nodes, cloud.alive()) == ([], [])


# replace


@virtual_time
async def test_the_new_node_is_ready_before_the_old_one_goes() -> None:
    async with World(min_nodes=1, max_nodes=2, boot_secs=60.0) as world:
        await world.until(70)
        [old] = world.nodes
        told = world.loop.orders.replace(old)
        [fresh] = world.nodes[1:]
        assert told == f"{fresh.name} is being made; once it is ready {old.name} goes"
        with pytest.raises(NotPossibleNow, match="being replaced already"):
            world.loop.orders.replace(old)
        await world.until(120)
        assert world.states() == ["idle", "starting"]
        await world.until(140)
        assert world.nodes == [fresh]
        assert world.cloud.most_alive == 2
        assert world.stats.scale_actions["up", "replace"] == world.stats.scale_actions["down", "replace"] == 1


@virtual_time
async def test_a_busy_node_that_is_replaced_ends_its_run() -> None:
    async with World(min_nodes=1, max_nodes=2) as world:
        await world.until(3)
        world.join()
        [lease] = world.granted
        world.loop.orders.replace(lease.node)
        await world.until(60)
        assert world.states() == ["busy", "idle"]
        world.release(lease)
        await world.until(70)
        assert world.states() == ["idle"]
        assert lease.node not in world.nodes


@pytest.mark.parametrize("is_held", [False, True])
@virtual_time
async def test_without_room_the_old_node_goes_first(is_held: bool) -> None:
    async with World(min_nodes=1, max_nodes=1) as world:
        await world.until(3)
        [old] = world.nodes
        if is_held:
            world.loop.orders.hold()
        world.cloud.destroy_secs = 10.0
        told = world.loop.orders.replace(old)
        assert told == "it goes, then another one is made (max_nodes 1 leaves no room to do so before)"
        await world.until(5)
        assert world.states() == ["draining"]
        await world.until(30)
        assert world.states() == ["idle"]
        assert old not in world.nodes
        assert (world.cloud.most_alive, world.cloud.counts()["create"]) == (1, 2)


@virtual_time
async def test_an_old_node_stays_where_the_new_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    async with World(min_nodes=1, max_nodes=2) as world:
        await world.until(3)
        [old] = world.nodes
        world.cloud.create_fault = ProviderError("no such device")
        world.loop.orders.replace(old)
        await world.until(60)
        assert (world.nodes, world.states()) == ([old], ["idle"])
        assert f"{old.name} stays" in caplog.text
        assert world.cloud.counts()["create"] == 2, "an order is tried once"


@virtual_time
async def test_a_refused_replacement_without_room_is_tried_again() -> None:
    async with World(min_nodes=0, max_nodes=1, idle_shutdown_secs=1000.0) as world:
        world.join()
        await world.until(3)
        world.release(world.granted[0])
        world.loop.orders.replace(world.nodes[0])
        world.cloud.create_fault = ProviderError("busy")
        await world.until(4)
        assert world.states() == []
        await world.until(60)
        assert world.cloud.counts()["create"] == 2
        assert world.loop.last_error == "create: busy"


@virtual_time
async def test_a_replacement_without_room_waits_for_the_back_off_of_others() -> None:
    cloud = FakeProvider(seconds)
    for _ in range(2):
        cloud.make()
    async with World(cloud, min_nodes=2, max_nodes=2) as world:
        await world.until(3)
        old, other = world.nodes
        cloud.destroy_secs = 60.0
        world.loop.orders.replace(old)
        cloud.vanish(cloud.machines[other.id or ""])
        cloud.create_fault = ProviderError("busy")
        await world.until(64)
        assert world.states() == [], "the floor was refused, and the next try is put off"
        cloud.create_fault = None
        await world.until(200)
        assert world.states() == ["idle", "idle"]
        assert world.stats.scale_actions["up", "replace"] == 1


@virtual_time
async def test_a_replacement_is_not_made_beyond_a_limit_that_was_lowered() -> None:
    cloud = FakeProvider(seconds)
    for _ in range(2):
        cloud.make()
    async with World(cloud, min_nodes=1, max_nodes=2) as world:
        await world.until(3)
        world.loop.orders.replace(world.nodes[0])
        world.apply(max_nodes=1)
        await world.until(60)
        assert world.states() == ["idle"]
        assert cloud.counts()["create"] == 0


@virtual_time
async def test_a_node_that_is_gone_before_its_replacement_is_ready_needs_none_to_go() -> None:
    async with World(min_nodes=2, max_nodes=3, boot_secs=60.0) as world:
        await world.until(70)
        old = world.nodes[0]
        world.loop.orders.replace(old)
        world.cloud.vanish(world.cloud.machines[old.id or ""])
        await world.until(300)
        assert old.state is NodeState.GONE
        assert len(world.nodes) >= 2
        assert world.cloud.counts()["destroy"] == 0


# a number of nodes


@virtual_time
async def test_more_nodes_are_made_within_max_nodes() -> None:
    async with World(min_nodes=1, max_nodes=4, scale_up_cooldown_secs=30.0) as world:
        await world.until(3)
        assert world.loop.orders.reach(9) == "3 being made; max_nodes is 4"
        assert world.loop.last_scale_up_at == seconds(), "the cooldown follows"
        assert world.loop.orders.reach(4) == "there are 4 already"
        await world.until(10)
        assert world.states() == ["idle"] * 4
        await world.until(1000)
        assert world.states() == ["idle"], "once: from then on the rules decide again"


@virtual_time
async def test_fewer_nodes_remain_within_min_nodes_and_the_busy_end_their_runs() -> None:
    cloud = FakeProvider(seconds)
    for _ in range(4):
        cloud.make()
    async with World(cloud, min_nodes=1, max_nodes=4) as world:
        await world.until(3)
        world.join(3)
        assert world.loop.orders.reach(0) == "3 drained, 2 of them after their runs; min_nodes is 1"
        assert sorted(world.states()) == ["busy", "busy", "busy", "draining"]
        await world.until(10)
        assert world.states() == ["busy"] * 3
        staying = [lease for lease in world.granted if not lease.node.is_retiring]
        assert [lease.node for lease in staying] == [world.granted[-1].node], "the last to begin stays"
        for lease in world.granted[:]:
            world.release(lease)
        await world.until(20)
        assert world.states() == ["idle"]


@virtual_time
async def test_who_goes_first_is_missed_least() -> None:
    cloud = FakeProvider(seconds)
    for _ in range(4):
        cloud.make()
    async with World(cloud, min_nodes=0, max_nodes=5, boot_secs=None) as world:
        await settle()
        busy, unready, idle, starting = world.nodes
        for node in (busy, unready, idle):
            world.dispatcher.ready(node, seconds())
        world.join(3)
        for lease in world.granted[:]:
            if lease.node is not busy:
                world.release(lease)
        world.dispatcher.unready(unready, seconds(), "503")
        order = []
        for wished in (3, 2, 1, 0):
            world.loop.orders.reach(wished)
            order.append(next(n for n in (busy, unready, idle, starting) if n not in order
                              and (n.is_retiring or n.state is NodeState.DRAINING)))  # fmt: skip
        assert order == [unready, starting, idle, busy]


@virtual_time
async def test_draining_nodes_take_room_until_they_have_gone() -> None:
    async with World(min_nodes=0, max_nodes=2) as world:
        await world.until(1)
        world.loop.orders.reach(2)
        await world.until(5)
        world.cloud.destroy_secs = 100.0
        world.loop.orders.reach(1)
        assert world.loop.orders.reach(1) == "there are 1 already"
        with pytest.raises(NotPossibleNow, match="2 nodes exist, some of them draining"):
            world.loop.orders.reach(2)
        world.apply(max_nodes=1)
        world.loop.orders.drain(world.nodes[1])
        with pytest.raises(NotPossibleNow, match="2 nodes exist, some of them draining; max_nodes is 1"):
            world.loop.orders.reach(1)
        assert world.cloud.most_alive == 2


@virtual_time
async def test_an_order_does_not_wait_for_the_back_off() -> None:
    cloud = FakeProvider(seconds)
    cloud.create_fault = ProviderError("token refused", is_auth=True)
    async with World(cloud, min_nodes=1) as world:
        await world.until(10)
        assert world.cloud.counts()["create"] == 1
        cloud.create_fault = None
        assert world.loop.orders.reach(1) == "1 being made"
        await world.until(15)
        assert world.states() == ["idle"]


@virtual_time
async def test_nothing_is_ordered_of_static_nodes_nor_before_the_list_is_read() -> None:
    async with World(make_static()) as world:
        await world.until(3)
        with pytest.raises(NotPossibleNow, match="static nodes are fixed"):
            world.loop.orders.reach(2)
        with pytest.raises(NotPossibleNow, match="static nodes are fixed"):
            world.loop.orders.replace(world.nodes[0])
    cloud = FakeProvider(seconds)
    cloud.list_fault = ProviderError("no answer")
    async with World(cloud) as world:
        await world.until(1)
        with pytest.raises(NotPossibleNow, match="list has not been read"):
            world.loop.orders.reach(2)


# hold


@virtual_time
async def test_while_held_nothing_is_created_or_destroyed_not_even_for_the_floor() -> None:
    async with World(min_nodes=1, max_nodes=3, unready_destroy_secs=10.0, idle_shutdown_secs=10.0) as world:
        await world.until(3)
        world.loop.orders.reach(2)
        await world.until(8)
        world.loop.orders.hold()
        world.cloud.vanish(world.cloud.machines[world.nodes[0].id or ""])
        counts = world.cloud.counts()
        await world.until(200)
        assert world.states() == ["idle"], "the list is read on, and what is gone is forgotten"
        world.cloud.vanish(world.cloud.machines[world.nodes[0].id or ""])
        await world.until(400)
        world.join(50)
        await world.until(800)
        after = world.cloud.counts()
        assert (after["create"], after["destroy"]) == (counts["create"], counts["destroy"])
        assert world.loop.last_check_at is not None
        assert seconds() - world.loop.last_check_at <= 5, "it goes on looking"
        world.loop.orders.resume()
        await settle()
        assert world.cloud.counts()["create"] > counts["create"], "at once"


@virtual_time
async def test_a_node_that_does_not_start_while_held_fails_once_and_after_the_hold() -> None:
    async with World(min_nodes=1, boot_secs=None, node_start_timeout_secs=20.0) as world:
        await world.until(1)
        world.loop.orders.hold()
        await world.until(300)
        assert (world.states(), world.stats.scale_errors["start"]) == (["starting"], 0)
        world.loop.orders.resume()
        await world.until(301)
        assert world.stats.scale_errors["start"] == 1


@virtual_time
async def test_orders_are_carried_out_while_held() -> None:
    async with World(min_nodes=0, max_nodes=3) as world:
        await world.until(1)
        world.loop.orders.hold()
        world.loop.orders.reach(2)
        await world.until(1000)
        assert world.states() == ["idle", "idle"], "and nothing undoes them"
        world.loop.orders.drain(world.nodes[0])
        await world.until(1010)
        assert world.states() == ["idle"]
