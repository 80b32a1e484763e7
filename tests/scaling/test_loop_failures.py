"""Clouds that fail, lie and lose: what is tried again when, and what is paid meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from proxy.errors import ProviderError
from tests.fakes.provider import FakeProvider
from tests.fakes.virtual_time import VirtualLoop, virtual_time
from tests.scaling.world import World, seconds


@virtual_time
async def test_refused_creates_leave_no_node_and_back_off() -> None:
    cloud = FakeProvider(seconds)
    cloud.create_fault = ProviderError("quota exceeded")
    async with World(cloud, min_nodes=1) as world:
        await world.until(1300)
        # 5 s doubling to 300 s, from one failure to the next
        assert world.elapsed("create") == [0, 5, 15, 35, 75, 155, 315, 615, 915, 1215]
        assert not world.nodes
        assert world.error() == "create: quota exceeded"
        assert world.stats.scale_errors == {"create": 10}
        cloud.create_fault = None
        await world.until(1520)
        assert world.states() == ["idle"]
        assert world.error() is None
        cloud.create_fault = ProviderError("quota exceeded")
        cloud.vanish(cloud.alive()[0])
        calls = len(cloud.times("create"))
        await world.until(1580)
        tries = world.elapsed("create")[calls:]
        assert tries[1] - tries[0] == 5  # a success begins the waits anew


@virtual_time
async def test_wave_of_refusals_counts_once() -> None:
    cloud = FakeProvider(seconds)
    cloud.create_fault = ProviderError("HTTP 500")
    async with World(cloud, min_nodes=3) as world:
        await world.until(15)
        assert world.elapsed("create") == [0, 0, 0, 5, 5, 5, 15, 15, 15]


@virtual_time
async def test_refused_create_is_no_scale_up() -> None:
    """Its next try waits for the back-off, not for the cooldown too."""
    cloud = FakeProvider(seconds)
    cloud.make()
    async with World(cloud, min_nodes=1, scale_up_cooldown_secs=600, queue_scale_count_threshold=2) as world:
        await world.until(698)
        cloud.create_fault = ProviderError("HTTP 500")
        world.join(4)
        await world.until(707)
        assert world.elapsed("create") == [700, 705]
        assert world.loop.last_scale_up_at == world.began
        cloud.create_fault = None
        await world.until(716)
        assert world.elapsed("create")[2:] == [715]
        assert world.loop.last_scale_up_at == world.began + 715


@virtual_time
async def test_failing_creates_never_stop_the_line() -> None:
    cloud = FakeProvider(seconds)
    cloud.make()
    cloud.create_fault = ProviderError("HTTP 500")
    async with World(cloud, min_nodes=2) as world:
        world.join(3)
        await world.until(20)
        for served in range(3):
            world.release(world.granted[served])
        assert len(world.granted) == 3


@virtual_time
async def test_retry_after_is_obeyed() -> None:
    cloud = FakeProvider(seconds)
    cloud.create_fault = ProviderError("HTTP 429", retry_after_secs=120)
    async with World(cloud, min_nodes=1) as world:
        await world.until(250)
        assert world.elapsed("create") == [0, 120, 240]


@virtual_time
async def test_list_obeys_retry_after() -> None:
    async with World(min_nodes=0) as world:
        await world.until(20)
        world.cloud.list_fault = ProviderError("HTTP 429", retry_after_secs=100)
        await world.until(200)
        assert world.elapsed("list") == [0, 15, 30, 130]


@virtual_time
async def test_refused_credentials_are_shown_and_left_alone_until_the_configuration_changes() -> None:
    cloud = FakeProvider(seconds)
    cloud.create_fault = ProviderError("token refused", is_auth=True)
    async with World(cloud, min_nodes=1) as world:
        await world.until(299)
        assert world.elapsed("create") == [0]
        assert world.error() == "create: token refused"
        cloud.create_fault = None
        world.apply()
        await world.until(305)
        assert world.elapsed("create") == [0, 299]
        assert world.error() is None
        assert world.states() == ["idle"]


@virtual_time
async def test_waits_are_spread_by_chance() -> None:
    cloud = FakeProvider(seconds)
    cloud.create_fault = ProviderError("HTTP 500")
    async with World(cloud, min_nodes=1, scale_check_interval_secs=0.01, jitter=0.5) as world:
        await world.until(14)
        assert world.elapsed("create") == pytest.approx([0, 4.4, 13.1], abs=0.1)  # 87.5 % of 5 and of 10


@virtual_time
async def test_fault_of_the_provider_is_reported_and_taken_for_an_unknown_outcome() -> None:
    cloud = FakeProvider(seconds)
    cloud.create_fault = KeyError("task_id")
    async with World(cloud, min_nodes=1, max_nodes=1) as world:
        await world.until(50)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        assert [fault["message"] for fault in loop.faults] == ["create node-1 failed unexpectedly"]
        loop.faults.clear()
        assert world.states() == ["starting"]
        cloud.create_fault = None
        await world.until(90)
        assert world.states() == ["idle"]


@virtual_time
async def test_fault_in_reading_the_list_does_not_end_the_reading() -> None:
    async with World(min_nodes=0) as world:
        await world.until(5)
        world.cloud.list_fault = ValueError("not JSON")  # type: ignore[assignment]
        await world.until(20)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        assert len(loop.faults) == 1
        loop.faults.clear()
        world.cloud.list_fault = None
        machine = world.cloud.make()
        await world.until(31)
        assert [node.id for node in world.nodes] == [machine.id]


@virtual_time
async def test_fault_in_reading_the_first_list_is_no_endless_loop() -> None:
    cloud = FakeProvider(seconds)
    cloud.list_fault = ValueError("not JSON")  # type: ignore[assignment]
    async with World(cloud, min_nodes=1) as world:
        await world.until(12)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.faults.clear()
        assert world.elapsed("list") == [0, 5, 10]


@virtual_time
async def test_node_not_ready_in_time_is_destroyed_and_counts_as_failed_start() -> None:
    """B63: deleted at the limit; it would have come up a minute later, and is never used."""
    async with World(
        min_nodes=1, boot_secs=160, node_start_timeout_secs=100, queue_scale_wait_secs=1000
    ) as world:
        world.join()
        await world.until(100)
        assert world.cloud.alive()
        await world.until(105)
        assert world.elapsed("destroy") == [105]
        assert world.stats.scale_errors == {"start": 1}
        assert world.stats.scale_actions["down", "start_timeout"] == 1
        assert world.error() == "start: node-1 was not ready after 105.0 s > 100 s"
        await world.until(110)
        assert world.elapsed("create") == [0, 110]
        await world.until(211)
        assert not world.granted
        world.boot_secs = 1
        await world.until(240)
        assert len(world.granted) == 1
        assert world.error() is None
        assert world.cloud.most_alive == 1


@virtual_time
async def test_starts_that_fail_again_and_again_back_off() -> None:
    """B63: a limit shorter than every boot would create and delete for ever."""
    async with World(min_nodes=1, node_start_timeout_secs=10, boot_secs=None) as world:
        await world.until(1500)
        gaps = [
            end - begin
            for begin, end in zip(world.elapsed("destroy"), world.elapsed("create")[1:], strict=False)
        ]
        assert gaps[:8] == [5, 10, 20, 40, 80, 160, 300, 300]
        assert world.cloud.most_alive == 1


@virtual_time
async def test_node_that_dies_while_it_starts_counts_as_failed_start() -> None:
    async with World(min_nodes=1, boot_secs=None) as world:
        for _ in range(60):
            await asyncio.sleep(1)
            if seconds() - world.began > 20:
                for machine in world.cloud.alive():
                    world.cloud.vanish(machine)
        await world.until(65)
        assert world.stats.scale_errors["start"] == 1
        assert world.error() == "start: node-1 was gone before it was ready"


@virtual_time
async def test_adopted_node_has_its_full_time_to_start() -> None:
    cloud = FakeProvider(seconds)
    cloud.make(age=5000)
    async with World(cloud, min_nodes=1, node_start_timeout_secs=100, boot_secs=None) as world:
        await world.until(100)
        assert not cloud.times("destroy")
        await world.until(106)
        assert cloud.times("destroy")


@virtual_time
async def test_create_that_hangs_past_the_deadline_is_given_up_and_its_node_destroyed() -> None:
    cloud = FakeProvider(seconds)
    cloud.create_secs = 10_000.0
    cloud.drops_creates = True
    cloud.list_lag_secs = 120.0
    async with World(cloud, min_nodes=1, max_nodes=1, node_start_timeout_secs=100) as world:
        await world.until(119)
        assert world.states() == ["draining"]
        assert not cloud.times("destroy")  # nothing is known of it but its name
        cloud.drops_creates, cloud.create_secs = False, 0.0
        await world.until(140)
        assert world.elapsed("destroy") == [125]  # listed at 120
        assert world.elapsed("create") == [0, 125]
        assert cloud.most_alive == 1


@virtual_time
async def test_node_unready_too_long_is_replaced() -> None:
    async with World(min_nodes=1, max_nodes=1, boot_secs=None, idle_shutdown_secs=1000) as world:
        await world.until(2)
        node = world.nodes[0]
        world.dispatcher.ready(node, seconds())
        world.dispatcher.unready(node, seconds(), "its probe: 503")
        await world.until(300)
        assert world.states() == ["unready"]
        await world.until(305)
        assert world.elapsed("destroy") == [305]
        assert world.elapsed("create") == [0, 305]
        assert world.stats.scale_actions["down", "unready"] == 1
        assert "was unready for 303.0 s > 300 s" in world.loop.decisions[-2].reason
        assert world.loop.last_scale_down_at is None  # no cooldown follows from it


@virtual_time
async def test_node_to_be_replaced_is() -> None:
    """A run that timed out may still be running on it."""
    async with World(min_nodes=1) as world:
        world.join()
        await world.until(8)
        world.dispatcher.release_unready(world.granted[0], seconds(), "run timed out", replace=True)
        await world.until(12)
        assert world.elapsed("destroy") == [10]
        assert world.elapsed("create") == [0, 10]
        assert world.loop.decisions[-2].reason.endswith(": run timed out")
        assert world.stats.scale_actions["down", "replace"] == 1


@pytest.mark.parametrize("can_scale", [True, False])
@virtual_time
async def test_node_that_settles_longer_than_a_run_may_take_is_given_up(can_scale: bool) -> None:
    cloud = FakeProvider(seconds, can_scale=can_scale)
    cloud.make()
    async with World(cloud, min_nodes=1, run_timeout_secs=100) as world:
        world.join(2)
        await world.until(2)
        world.dispatcher.settle(world.granted[0], seconds())
        await world.until(102)
        assert world.states() == ["busy"]
        await world.until(106)
        assert bool(cloud.times("destroy")) is can_scale
        await world.until(110)
        # Replaced where there can be another; else it has to pass its probe, as after every run that broke.
        assert len(world.granted) == 2
        assert (world.granted[1].node is world.granted[0].node) is not can_scale
