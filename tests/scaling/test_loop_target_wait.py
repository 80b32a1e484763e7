"""The loop feeds `target_wait` with what happens in the line, and only while that is the policy."""

from __future__ import annotations

from tests.fakes.virtual_time import virtual_time
from tests.scaling.world import World, seconds


@virtual_time
async def test_it_learns_runs_waits_and_starts_and_scales_by_them() -> None:
    async with World(
        scaling_policy="target_wait", target_wait_secs=30, min_nodes=0, max_nodes=8, boot_secs=40
    ) as world:
        world.join()
        await world.until(50)  # cold: one node, ready after 40 s
        demand = world.loop._demand
        assert demand is world.dispatcher.watcher
        assert demand is not None
        await world.until(60)
        world.release(world.granted[0])
        assert 40 <= demand.start < 45
        assert demand.run == seconds() - world.granted[0].granted_at
        assert demand.allowance < 30  # the first one waited longer
        world.join(12)
        await world.until(70)
        assert len(world.nodes) > 3
        assert world.loop.decisions[-1].reason.endswith("allowed for a target of 30 s")
        assert world.stats.scale_actions["up", "target"]
        while world.dispatcher.running:
            world.release(world.granted[world.dispatcher.served])
        await world.until(400)
        assert world.nodes == []  # nobody came: all are gone, whatever the cooldowns


@virtual_time
async def test_a_reload_changes_the_target_keeps_what_was_learned_and_ends_it_with_the_policy() -> None:
    async with World(scaling_policy="target_wait", target_wait_secs=30) as world:
        await world.until(10)
        demand = world.loop._demand
        assert demand is not None
        demand.ended(7)
        world.apply(target_wait_secs=90.0)
        assert world.loop._demand is demand
        assert (demand.target, demand.run) == (90, 7)
        world.apply(scaling_policy="threshold")
        held = [world.loop._demand, world.dispatcher.watcher]
        assert held == [None, None]


@virtual_time
async def test_the_ceiling_is_told_so_that_waits_there_teach_nothing() -> None:
    async with World(scaling_policy="target_wait", target_wait_secs=1, max_nodes=1, min_nodes=1) as world:
        world.join(5)
        for second in range(10, 60, 10):
            await world.until(second)
            world.release(world.granted[-1])
        assert world.loop._demand is not None
        assert world.loop._demand.allowance >= 1
