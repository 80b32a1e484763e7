"""From nothing, from a restart, on demand: what is created when, and never twice."""

from __future__ import annotations

import pytest

from proxy.errors import ProviderError
from tests.fakes.provider import FakeProvider
from tests.fakes.virtual_time import virtual_time
from tests.scaling.world import World, seconds


@virtual_time
async def test_floor_is_created_at_the_start_after_the_list() -> None:
    async with World(min_nodes=2) as world:
        await world.until(20)
        assert [operation for _, operation, _ in world.cloud.calls[:3]] == ["list", "create", "create"]
        assert world.states() == ["idle", "idle"]
        assert world.loop.decisions[0].reason == "0 ready or starting < min_nodes 2"
        assert world.stats.scale_actions == {("up", "floor"): 1}


@virtual_time
async def test_restart_adopts_and_creates_none_too_many() -> None:
    cloud = FakeProvider(seconds)
    first, second = cloud.make(), cloud.make()
    cloud.list_secs = 8.0
    async with World(cloud, min_nodes=2, boot_secs=None) as world:
        world.join()
        await world.until(7)
        assert not world.nodes  # checks came and went, and somebody waits: the list comes first
        await world.until(60)
        assert not cloud.times("create")
        assert [node.id for node in world.nodes] == [first.id, second.id]
        # An adopted node may still serve what an earlier process gave it: only its probe can tell.
        assert world.states() == ["starting", "starting"]
        assert not world.granted
        world.dispatcher.ready(world.nodes[1], seconds())
        assert [lease.node.id for lease in world.granted] == [second.id]


@virtual_time
async def test_nothing_is_created_before_the_list_could_be_read() -> None:
    cloud = FakeProvider(seconds)
    machine = cloud.make()
    cloud.list_fault = ProviderError("HTTP 500")
    async with World(cloud, min_nodes=1, queue_scale_wait_secs=1000) as world:
        world.join()
        await world.until(100)
        assert world.elapsed("list") == [0, 5, 15, 35, 75]
        assert not cloud.times("create")
        assert world.error() == "list: HTTP 500"
        assert world.stats.scale_errors == {"list": 5}
        cloud.list_fault = None
        await world.until(157)
        assert [lease.node.id for lease in world.granted] == [machine.id]
        assert world.error() is None
        assert not cloud.times("create")


@virtual_time
async def test_cold_request_creates_exactly_one_node_at_once() -> None:
    """B65: long idle, one request and no other; the create does not wait for a check."""
    async with World(min_nodes=0, boot_secs=20) as world:
        await world.until(2702.5)
        assert not world.cloud.times("create")
        world.join()
        await world.until(2702.5)
        assert world.elapsed("create") == [2702.5]
        assert world.loop.decisions[-1].reason == "no node, 1 waiting"
        await world.until(2730)
        assert len(world.granted) == 1
        assert len(world.cloud.machines) == 1


@virtual_time
async def test_lost_node_is_made_up_for() -> None:
    async with World(min_nodes=1) as world:
        await world.until(20)
        world.cloud.vanish(world.cloud.alive()[0])
        await world.until(60)
        assert world.states() == ["idle"]
        assert len(world.cloud.alive()) == 1
        assert world.cloud.most_alive == 1


@virtual_time
async def test_slow_create_holds_up_neither_line_nor_checks() -> None:
    cloud = FakeProvider(seconds)
    cloud.make()
    cloud.create_secs = 500.0
    async with World(cloud, min_nodes=2) as world:
        await world.until(100)
        assert world.states() == ["idle", "starting"]  # in flight is paid
        world.join(30)
        await world.until(200)
        assert len(world.granted) == 1
        world.release(world.granted[0])
        assert len(world.granted) == 2
        assert world.loop.last_check_at == seconds()
        assert cloud.counts()["create"] == 2  # the line's own; the third of three


@virtual_time
async def test_starting_nodes_count_at_every_check() -> None:
    """B59: boot 300 s, tick 5 s, four waiting, at most three: three creates in all."""
    async with World(min_nodes=0, max_nodes=3, boot_secs=300) as world:
        world.join(4)
        await world.until(299)
        assert world.elapsed("create") == [0, 0, 120]
        await world.until(500)
        assert world.cloud.counts()["create"] == 3
        assert len(world.granted) == 3


@pytest.mark.parametrize("lag", [0.0, 5.0, 50.0])
@virtual_time
async def test_dropped_creates_never_make_a_fourth(lag: float) -> None:
    """B57: every create is carried out and answered by a dropped connection."""
    cloud = FakeProvider(seconds)
    cloud.drops_creates = True
    cloud.list_lag_secs = lag
    async with World(cloud, min_nodes=0, max_nodes=3) as world:
        world.join(40)
        await world.until(5)
        assert world.error() == "create: connection dropped"
        await world.until(3600)
        assert cloud.counts()["create"] == 3
        assert cloud.most_alive == 3
        assert len(world.granted) == 3  # found by their names, and used
        assert world.error() is None


@virtual_time
async def test_unknown_create_is_given_up_after_two_late_lists() -> None:
    cloud = FakeProvider(seconds)
    cloud.loses_creates = True
    async with World(cloud, min_nodes=1, max_nodes=1) as world:
        await world.until(74)
        assert world.states() == ["starting"]
        cloud.loses_creates = False
        await world.until(85)  # the lists at 60 and 75 lack it
        assert world.elapsed("create") == [0, 75]
        assert world.states() == ["idle"]
        assert cloud.most_alive == 1


@virtual_time
async def test_lists_during_a_create_prove_nothing() -> None:
    cloud = FakeProvider(seconds)
    cloud.create_secs = 100.0
    async with World(cloud, min_nodes=1) as world:
        await world.until(99)
        assert world.states() == ["starting"]
        await world.until(105)
        assert world.states() == ["idle"]
        assert cloud.counts()["create"] == 1


@virtual_time
async def test_list_that_began_before_the_create_ended_proves_nothing() -> None:
    cloud = FakeProvider(seconds)
    cloud.list_secs = 40.0  # lists go out at 0, 55, 110, ... and tell of that moment
    cloud.create_secs = 10.0
    cloud.list_lag_secs = 50.0
    async with World(cloud, min_nodes=1) as world:
        await world.until(400)
        assert world.states() == ["idle"]
        assert cloud.counts()["create"] == 1


@virtual_time
async def test_node_listed_while_its_create_still_hangs_is_used_and_not_adopted_twice() -> None:
    cloud = FakeProvider(seconds)
    cloud.drops_creates = True
    cloud.create_secs = 100.0
    async with World(cloud, min_nodes=1) as world:
        await world.until(30)
        assert world.states() == ["idle"]
        await world.until(300)
        assert world.states() == ["idle"]
        assert cloud.counts()["create"] == 1


@virtual_time
async def test_restart_soon_after_a_create_keeps_to_the_cooldown() -> None:
    """B69: the time of the last scale-up is read off the youngest node."""
    cloud = FakeProvider(seconds)
    cloud.make(age=500)
    cloud.make(age=10)
    async with World(cloud, min_nodes=0, max_nodes=4, scale_up_cooldown_secs=60, boot_secs=None) as world:
        world.join(20)
        await world.until(49)
        assert world.loop.last_scale_up_at == world.began - 10
        assert not cloud.times("create")
        await world.until(51)
        assert world.elapsed("create") == [50, 50]


@virtual_time
async def test_nodes_of_unknown_age_start_no_cooldown() -> None:
    cloud = FakeProvider(seconds)
    cloud.make()
    cloud.tells_age = False
    async with World(cloud, min_nodes=0, boot_secs=None) as world:
        world.join(20)
        await world.until(1)
        assert world.elapsed("create") == [0, 0]


@virtual_time
async def test_restart_every_four_minutes_never_creates_twice_and_idle_nodes_go_after_the_last() -> None:
    """B69: idle times begin when an adopted node is ready: a restart puts stopping off, but only so long."""
    cloud = FakeProvider(seconds)
    for _ in range(3):
        cloud.make()
    for _ in range(5):
        async with World(cloud, min_nodes=1, idle_shutdown_secs=300) as world:
            await world.until(240)
            assert world.states() == ["idle", "idle", "idle"]
    async with World(cloud, min_nodes=1, idle_shutdown_secs=300) as world:
        await world.until(310)
        assert world.states() == ["idle", "idle"]
        await world.until(490)
        assert world.states() == ["idle"]
        await world.until(2000)
        assert world.states() == ["idle"]
    assert not cloud.times("create")


@virtual_time
async def test_limits_change_at_once() -> None:
    async with World(
        min_nodes=0, scale_check_interval_secs=3600.0, node_refresh_interval_secs=3600.0
    ) as world:
        await world.until(10)
        lists = world.cloud.counts()["list"]
        world.apply(min_nodes=2, scale_check_interval_secs=5.0, node_refresh_interval_secs=10.0)
        assert len(world.nodes) == 2
        await world.until(31)
        assert world.cloud.counts()["list"] == lists + 3  # at 10, 20 and 30
        assert world.loop.last_check_at == world.began + 30


@virtual_time
async def test_static_nodes_are_adopted_and_never_scaled() -> None:
    cloud = FakeProvider(seconds, can_scale=False)
    machine = cloud.make()
    async with World(cloud, min_nodes=3, unready_destroy_secs=10, node_start_timeout_secs=10) as world:
        world.join(30)
        await world.until(1000)
        assert world.states() == ["busy"]
        cloud.vanish(machine)
        machine.listed_until = None  # a static list tells of it whatever it does
        world.dispatcher.release_unready(world.granted[0], seconds(), "link broke")
        world.leave_all()
        await world.until(2000)
        assert world.states() == ["unready"]
        assert set(cloud.counts()) == {"list"}
        assert not world.loop.decisions


@virtual_time
async def test_of_proxies_that_share_a_database_only_the_leader_scales() -> None:
    world = World(min_nodes=1)
    leads = False
    world.loop.is_leader = lambda: leads
    async with world:
        world.join()
        await world.until(60)
        assert not world.cloud.times("create")
        leads = True  # the other one has died
        await world.until(70)
        assert world.states() == ["busy"]


@virtual_time
async def test_nodes_of_its_own_are_scaled_by_every_proxy() -> None:
    cloud = FakeProvider(seconds)
    cloud.is_shared = False
    world = World(cloud, min_nodes=1)
    world.loop.is_leader = lambda: False
    async with world:
        await world.until(20)
        assert world.states() == ["idle"]
