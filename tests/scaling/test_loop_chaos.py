"""Hours with a cloud that fails at random, and with an operator who orders at random: what must hold after every step
whatever they do."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from proxy.dispatch.nodes import NodeState
from proxy.errors import NotPossibleNow, ProviderError
from tests.fakes.provider import FakeProvider
from tests.fakes.virtual_time import virtual_time
from tests.scaling.world import World, seconds


@pytest.mark.parametrize("has_operator", [False, True])
@pytest.mark.parametrize("seed", range(25))
@virtual_time
async def test_cloud_that_fails_at_random(seed: int, has_operator: bool) -> None:
    """Never more machines than `max_nodes`, a run on a node that goes or a node that goes under a run; in the end the
    line is served and every machine known."""
    chance = random.Random(seed)
    cloud = FakeProvider(seconds)
    world = World(
        cloud,
        boot_secs=chance.choice([1.0, 30.0, 200.0]),
        jitter=chance.random() or 0.5,
        min_nodes=chance.choice([0, 1, 2]),
        max_nodes=chance.choice([2, 3, 5]),
        idle_shutdown_secs=30,
        scale_down_cooldown_secs=10,
        scale_up_cooldown_secs=5,
        queue_scale_wait_secs=20,
        queue_scale_count_threshold=3,
        node_start_timeout_secs=150,
        unready_destroy_secs=60,
    )
    draining: set[int] = set()
    seen_grants = 0
    async with world:
        for _ in range(1500):
            _disturb(chance, world)
            if has_operator and chance.random() < 0.1:
                _order(chance, world)
            await asyncio.sleep(chance.random() * 4)
            assert len(cloud.alive()) <= world.config.max_nodes
            assert len(world.nodes) <= world.config.max_nodes
            for lease in world.granted[seen_grants:]:
                assert lease.node.number not in draining
            seen_grants = len(world.granted)
            for lease in world.granted:
                assert lease.is_returned or lease.node.state is NodeState.BUSY
            draining |= {node.number for node in world.nodes if node.state is NodeState.DRAINING}
        _mend(cloud)
        world.loop.orders.resume()
        world.dispatcher.resume(seconds())
        world.boot_secs = 1.0
        for _ in range(900):
            _release_all(world)
            await asyncio.sleep(1)
        assert not len(world.dispatcher.line)
        assert {machine.id for machine in cloud.alive()} == {node.id for node in world.nodes}
        assert len(world.nodes) == world.config.min_nodes


def _disturb(chance: random.Random, world: World) -> None:
    cloud = world.cloud
    fault = ProviderError("HTTP 500", retry_after_secs=chance.choice([None, 20.0]))
    match chance.randrange(12):
        case 0:
            cloud.create_fault = chance.choice([None, None, fault])
        case 1:
            cloud.drops_creates = chance.random() < 0.5
        case 2:
            cloud.loses_creates = chance.random() < 0.3
        case 3:
            cloud.destroy_fault = chance.choice([None, fault])
        case 4:
            cloud.list_fault = chance.choice([None, None, fault])
        case 5:
            cloud.create_secs = chance.choice([0.0, 3.0, 70.0])
            cloud.destroy_secs = chance.choice([0.0, 20.0])
            cloud.list_secs = chance.choice([0.0, 2.0, 25.0])
            cloud.list_lag_secs = chance.choice([0.0, 10.0, 55.0])
        case 6 if cloud.alive() and chance.random() < 0.1:
            cloud.vanish(chance.choice(cloud.alive()))
        case 7 if world.granted and not world.granted[-1].is_returned:
            lease, now = world.granted[-1], seconds()
            world.dispatcher.release_unready(lease, now, "link broke", replace=chance.random() < 0.3)
        case 8:
            world.join(chance.choice([1, 1, 5]))
        case 9:
            _release_all(world)
        case 10 if chance.random() < 0.05:
            world.leave_all()
        case _:
            world.loop.poke()


def _order(chance: random.Random, world: World) -> None:
    orders, nodes = world.loop.orders, world.nodes
    with suppress(NotPossibleNow):
        match chance.randrange(8):
            case 0:
                orders.hold()
            case 1 | 2:
                orders.resume()
            case 3:
                world.dispatcher.hold()
            case 4:
                world.dispatcher.resume(seconds())
            case 5:
                orders.reach(chance.randrange(7))
            case _ if nodes:
                order = chance.choice([orders.drain, orders.replace, orders.replace, orders.restore])
                order(chance.choice(nodes))


def _mend(cloud: FakeProvider) -> None:
    cloud.create_fault = cloud.destroy_fault = cloud.list_fault = None
    cloud.drops_creates = cloud.loses_creates = False
    cloud.create_secs = cloud.destroy_secs = cloud.list_secs = cloud.list_lag_secs = 0.0


def _release_all(world: World) -> None:
    for lease in list(world.granted):
        if not lease.is_returned:
            world.release(lease)
