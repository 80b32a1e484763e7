"""Readiness in virtual time: who is asked when, and which answers count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from proxy.config import Config
from tests.fakes.hospital import REFUSED, Hospital, after, seconds
from tests.fakes.virtual_time import virtual_time


@virtual_time
async def test_starting_node_is_asked_often_until_it_answers_200() -> None:
    async with Hospital() as hospital:
        node = hospital.add("a", 503)
        await hospital.until(4.1)
        assert hospital.times("a") == [0.0, 2.0, 4.0]
        assert node.state == "starting"
        assert node.last_probe is not None
        assert (node.last_probe.status, node.last_probe.error) == (503, None)
        hospital.answers["a"] = 200
        await hospital.until(6.1)
        assert node.state == "idle"
        assert node.ready_at == hospital.began + 6


@pytest.mark.parametrize("status", [201, 202, 204, 301, 302, 307, 401, 404, 429, 500, 503])
@virtual_time
async def test_nothing_but_200_is_ready(status: int) -> None:
    async with Hospital() as hospital:

        async def answer(_: httpx.Request) -> httpx.Response:
            return httpx.Response(status, headers={"Location": "http://b:8000/ready"})

        hospital.answers["b"] = 200
        node = hospital.add("a", answer)
        await hospital.until(5)
        assert node.state == "starting"
        assert not hospital.times("b")  # redirects are not followed


@virtual_time
async def test_200_is_ready_whatever_the_body_says() -> None:
    """B38: the stated default."""
    async with Hospital(health_check_path="/health?deep=1") as hospital:
        targets: list[bytes] = []

        async def answer(request: httpx.Request) -> httpx.Response:
            targets.append(request.url.raw_path)
            return httpx.Response(200, html="please wait")

        node = hospital.add("a", answer)
        await hospital.until(1)
        assert node.state == "idle"
        assert targets == [b"/health?deep=1"]


@virtual_time
async def test_endless_body_is_not_read_to_its_end() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0)
            yield b"x" * 4096

    async def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=endless())

    async with Hospital() as hospital:
        node = hospital.add("a", answer)
        await hospital.until(0.1)
        assert node.state == "idle"


@virtual_time
async def test_only_nodes_that_run_and_have_an_address_are_asked() -> None:
    async with Hospital() as hospital:
        pending, homeless = hospital.add("a"), hospital.add("b")
        pending.is_running, homeless.url = False, None
        await hospital.until(10)
        assert not hospital.asked
        pending.is_running, homeless.url = True, "http://b:8000"
        await hospital.until(11)
        assert {name for _, name in hospital.asked} == {"a", "b"}


@virtual_time
async def test_idle_node_is_asked_every_refresh_interval_and_not_soon_after_a_run() -> None:
    async with Hospital() as hospital:
        hospital.add("a", is_ready=True)
        await hospital.until(31)
        assert hospital.times("a") == [15.0, 30.0]
        await hospital.until(40)
        hospital.join()
        await hospital.until(43)
        hospital.dispatcher.release(hospital.granted[0], seconds())
        await hospital.until(57.9)
        assert hospital.times("a") == [15.0, 30.0]
        await hospital.until(58.1)
        assert hospital.times("a") == [15.0, 30.0, 58.0]


@virtual_time
async def test_busy_and_draining_nodes_are_never_asked() -> None:
    async with Hospital() as hospital:
        hospital.add("a", is_ready=True)
        hospital.join()
        hospital.dispatcher.drain(hospital.add("b", is_ready=True))
        await hospital.until(1000)
        assert not hospital.asked


@virtual_time
async def test_unready_node_is_asked_from_a_second_after() -> None:
    async with Hospital() as hospital:
        node = hospital.add("a", 503, is_ready=True)
        hospital.join()
        await hospital.until(20)
        hospital.dispatcher.release_unready(hospital.granted[0], seconds(), "link broke")
        await hospital.until(24)
        assert hospital.times("a") == [21.0, 23.0]
        hospital.answers["a"] = 200
        await hospital.until(25.1)
        assert node.state == "idle"


@virtual_time
async def test_settling_node_is_free_when_its_probe_answers_200() -> None:
    async with Hospital() as hospital:
        node = hospital.add("a", 503, is_ready=True)
        hospital.join()
        hospital.join()
        await hospital.until(10)
        hospital.dispatcher.settle(hospital.granted[0], seconds())
        await hospital.until(14)
        assert hospital.times("a") == [11.0, 13.0]
        assert node.state == "busy"
        assert len(hospital.granted) == 1
        hospital.answers["a"] = 200
        await hospital.until(15.1)
        assert len(hospital.granted) == 2


@virtual_time
async def test_slow_probe_delays_no_other_and_they_do_not_pile_up() -> None:
    """B40: usable within the limit; past it the probe is over."""
    async with Hospital() as hospital:
        slow, hanging, quick = hospital.add("a", after(1.5)), hospital.add("b", after(1e6)), hospital.add("c")
        await hospital.until(1.6)
        assert quick.ready_at == pytest.approx(hospital.began, abs=0.01)
        assert slow.ready_at == hospital.began + 1.5
        await hospital.until(11)
        assert hospital.times("b") == pytest.approx([0, 5.25, 10.5], abs=0.1)  # one at a time, each 5 s
        assert hanging.last_probe is not None
        assert hanging.last_probe.error == "no answer within 5 s"


@virtual_time
async def test_idle_node_that_answers_badly_is_unready() -> None:
    async with Hospital() as hospital:
        node = hospital.add("a", 503, is_ready=True)
        await hospital.until(15.1)
        assert node.state == "unready"
        assert node.reason == "its probe: 503"
        assert not hospital.closed  # it did answer: our idle link is not in its way
        assert hospital.times("a") == [15.0]


@pytest.mark.parametrize("trouble", [after(1e6), REFUSED, httpx.ReadError("reset")])
@virtual_time
async def test_idle_link_is_closed_and_the_probe_repeated_before_an_idle_node_is_blamed(trouble: Any) -> None:
    async with Hospital() as hospital:
        node = hospital.add("a", trouble, is_ready=True)
        await hospital.until(14)
        hospital.prober._close_idle_link = lambda _: hospital.answers.update(a=200)
        await hospital.until(22)
        assert node.state == "idle"
        assert len(hospital.times("a")) == 2


@virtual_time
async def test_idle_node_that_answers_neither_time_is_unready() -> None:
    async with Hospital() as hospital:
        node = hospital.add("a", REFUSED, is_ready=True)
        await hospital.until(15.1)
        assert hospital.closed == ["a"]
        assert hospital.times("a") == [15.0, 15.0]
        assert node.state == "unready"
        assert node.reason == "its probe: ConnectError: refused"


@virtual_time
async def test_link_of_a_node_leased_meanwhile_is_not_closed() -> None:
    async with Hospital() as hospital:
        node = hospital.add("a", after(1e6), is_ready=True)
        await hospital.until(16)
        hospital.join()
        await hospital.until(30)
        assert node.state == "busy"
        assert not hospital.closed
        assert hospital.times("a") == [15.0]


@pytest.mark.parametrize("status", [200, 503])
@virtual_time
async def test_answer_that_was_overtaken_by_a_lease_does_not_count(status: int) -> None:
    """Asked while idle, answered when a run had begun and ended: it tells of a node that is no more."""
    async with Hospital() as hospital:
        node = hospital.add("a", after(3, status), is_ready=True)
        await hospital.until(16)
        hospital.join()
        await hospital.until(17)
        if status == 200:
            hospital.dispatcher.release_unready(hospital.granted[0], seconds(), "link broke")
        else:
            hospital.dispatcher.release(hospital.granted[0], seconds())
        await hospital.until(18.1)
        assert node.last_probe is not None
        assert node.state == ("unready" if status == 200 else "idle")


@virtual_time
async def test_answer_from_an_old_address_does_not_count() -> None:
    async with Hospital() as hospital:
        hospital.answers["b"] = 503
        node = hospital.add("a", after(3))
        await hospital.until(1)
        node.url = "http://b:8000"
        await hospital.until(4)
        assert node.state == "starting"


@virtual_time
async def test_nodes_ready_in_one_moment_are_not_asked_in_one_moment_for_ever() -> None:
    async with Hospital() as hospital:
        chances = iter(range(10_000))
        hospital.prober._random = lambda: next(chances) % 10 / 10
        for number in range(10):
            hospital.add(f"n{number}")
        await hospital.until(121)
        last = {name: at for at, name in hospital.asked}
        assert len(set(last.values())) >= 5


@virtual_time
async def test_what_is_remembered_of_nodes_goes_with_them() -> None:
    async with Hospital() as hospital:
        for number in range(100):
            node = hospital.add(f"n{number}")
            await asyncio.sleep(1)
            hospital.dispatcher.drain(node)
            hospital.dispatcher.remove(node)
        assert len(hospital.prober._asked) < 5
        assert not hospital.prober._in_flight


@virtual_time
async def test_changed_configuration_counts_from_the_next_probe_on() -> None:
    async with Hospital() as hospital:
        node = hospital.add("a", after(2, 503))
        hospital.prober.apply(Config(probe_timeout_secs=1, start_probe_interval_secs=10))
        await hospital.until(12)
        assert hospital.times("a") == [0.0, 10.0]
        assert node.last_probe is not None
        assert node.last_probe.error == "no answer within 1 s"


@virtual_time
async def test_many_probes_due_at_once_leave_room_between_them() -> None:
    async with Hospital() as hospital:
        starts: list[float] = []

        async def answer(_: httpx.Request) -> httpx.Response:
            starts.append(seconds())
            return httpx.Response(200)

        for number in range(100):
            hospital.add(f"n{number}", answer)
        await hospital.until(1)
        assert len(set(starts)) == 100


@virtual_time
async def test_node_leased_before_its_probe_has_begun_is_not_asked() -> None:
    async with Hospital() as hospital:
        for name in ("a", "b"):
            hospital.add(name, is_ready=True)
        await hospital.until(15.0)
        assert hospital.times("b") == []  # due, a little after the first
        for _ in range(2):
            hospital.join()
        await hospital.until(20)
        assert [name for _, name in hospital.asked] == ["a"]
