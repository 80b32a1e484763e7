"""Alerts to a real receiver: once each, in order, through failures and hangs, and never in anybody's way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from proxy.admin import alerts as alerts_module
from proxy.admin.alerts import SETTLE_SECS, Alerts, Damper
from proxy.config import Config
from tests.admin.conftest import Rig
from tests.fakes.alert_receiver import Receiver
from tests.fakes.until import until


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    await made.start()
    yield made
    await made.stop()


class Told:
    """Health changed by hand, five seconds and more passing between two changes."""

    def __init__(self, rig: Rig, receiver: Receiver) -> None:
        self.rig = rig
        rig.config = Config.model_validate({"alert_webhook": receiver.url, "alert_webhook_token": "t0ken"})
        self.alerts = Alerts(
            lambda: self.rig.config, rig.health, rig.clock, proxy_name="here", timeout_secs=0.3
        )

    def change(self, *codes: str) -> None:
        self.now_wrong(*codes)
        self.rig.time.now += SETTLE_SECS
        self.now_wrong(*codes)

    def now_wrong(self, *codes: str) -> None:
        self.rig.health.update({code: f"{code}, in words" for code in codes}, self.rig.time.now)
        self.alerts.look()


@pytest.fixture
async def told(rig: Rig, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Told]:
    monkeypatch.setattr(alerts_module, "_FIRST_SECS", 0.01)
    monkeypatch.setattr(alerts_module, "_LONGEST_SECS", 0.05)
    monkeypatch.setenv("NO_PROXY", "*")
    made = Told(rig, receiver)
    yield made
    await made.alerts.stop()


async def test_a_change_is_told_with_its_facts(told: Told, receiver: Receiver) -> None:
    told.change("token_refused", "line_full")
    await until(lambda: len(receiver.heard) == 1, "told")
    [(_, message)] = receiver.heard
    assert len(message.pop("id")) == 36
    assert message == {
        "proxy": "here",
        "at": "2027-01-15T08:00:05.000Z",
        "state": "degraded",
        "reasons": [
            {"code": code, "detail": f"{code}, in words", "since": "2027-01-15T08:00:00.000Z"}
            for code in ("token_refused", "line_full")
        ],
        "added": ["line_full", "token_refused"],
        "cleared": [],
    }
    assert receiver.headers[0]["Authorization"] == "Bearer t0ken"
    told.change("line_full")
    told.change()
    await until(lambda: len(receiver.heard) == 3, "told")
    assert receiver.taken[1:] == [([], ["token_refused"]), ([], ["line_full"])]
    assert [message["state"] for _, message in receiver.heard] == ["degraded", "degraded", "ok"]


async def test_a_reason_that_is_about_to_end_is_still_worded(
    told: Told, receiver: Receiver, rig: Rig
) -> None:
    told.change("line_full", "no_node")
    told.now_wrong("line_full")
    rig.time.now += 1.0
    told.now_wrong()
    rig.time.now += SETTLE_SECS - 1.0
    told.now_wrong()
    await until(lambda: len(receiver.taken) == 2, "told")
    [*_, (_, message)] = receiver.heard
    assert message["cleared"] == ["no_node"]
    assert [reason["code"] for reason in message["reasons"]] == ["line_full"]


async def test_a_receiver_that_fails_first_hears_each_change_once_and_in_order(
    told: Told, receiver: Receiver, rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    receiver.answers = [500, 404, 302, 503]
    told.change("line_full")
    told.change()
    told.change("no_node")
    await until(lambda: len(receiver.taken) == 3, "delivered")
    assert receiver.taken == [(["line_full"], []), ([], ["line_full"]), (["no_node"], [])]
    ids = [message["id"] for _, message in receiver.heard]
    assert ids[0] == ids[1] == ids[2] == ids[3] == ids[4]
    assert len(set(ids)) == 3
    ours = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("proxy"))
    assert "127.0.0.1 answered 500 (try 1)" in ours
    assert "s3cret" not in ours
    assert "t0ken" not in ours


async def test_a_receiver_that_hangs_is_given_up_on_and_asked_again(
    told: Told, receiver: Receiver, rig: Rig
) -> None:
    receiver.answers = [None] * 3
    told.change("line_full")
    await until(lambda: len(receiver.heard) == 4, "asked again")
    assert receiver.taken == [(["line_full"], [])]


async def test_health_tells_that_alerts_do_not_get_through_and_no_alert_does(
    told: Told, receiver: Receiver, rig: Rig
) -> None:
    receiver.answers = [500] * 10_000
    told.change("line_full")
    await until(lambda: len(receiver.heard) > 3, "tried")
    told.change("line_full")
    reasons = {reason.code: reason.detail for reason in rig.health.reasons}
    assert "alert_webhook: 127.0.0.1 answered 500, " in reasons["alert_undelivered"]
    receiver.answers = []
    await until(lambda: len(receiver.taken) == 1, "delivered")
    told.change("line_full")
    told.change()
    await until(lambda: len(receiver.taken) == 2, "delivered")

    def is_well() -> bool:
        told.now_wrong()  # what was reported and cleared counts from the next update on
        return rig.health.state == "ok"

    await until(is_well, "that alerts get through is known")
    assert receiver.taken == [(["line_full"], []), ([], ["line_full"])]


async def test_nobody_listens(told: Told, receiver: Receiver, rig: Rig) -> None:
    await receiver.stop()
    told.change("line_full")

    def is_told() -> bool:
        told.now_wrong("line_full")
        return any("127.0.0.1: ConnectError" in reason.detail for reason in rig.health.reasons)

    await until(is_told, "it is told that nobody listens")


async def test_of_too_many_that_wait_the_oldest_are_dropped(
    told: Told, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers = [None]
    for _ in range(60):
        told.change("line_full")
        told.change()
    assert "the oldest is dropped" in caplog.text
    await until(lambda: len(receiver.taken) == 100, "delivered")
    assert receiver.taken[-1] == ([], ["line_full"])
    assert receiver.taken[::2] == [(["line_full"], [])] * 50


async def test_without_an_address_nothing_is_kept_and_one_given_later_hears_what_is_wrong(
    told: Told, receiver: Receiver, rig: Rig
) -> None:
    with_hook = rig.config
    receiver.answers = [500] * 10_000
    told.change("line_full")
    await until(lambda: len(receiver.heard) > 3, "tried")
    rig.config = Config()
    told.change("line_full")
    assert [reason.code for reason in rig.health.reasons] == ["line_full"]
    receiver.answers = []
    rig.config = with_hook
    told.change("line_full")
    await until(lambda: len(receiver.taken) == 1, "delivered")
    assert receiver.taken == [(["line_full"], [])]


async def test_stopping_does_not_wait_for_the_receiver(told: Told, receiver: Receiver) -> None:
    told.alerts._timeout_secs = 60.0
    receiver.answers = [None]
    told.change("line_full")
    await until(lambda: len(receiver.heard) == 1, "asked")
    async with asyncio.timeout(5):
        await told.alerts.stop()


# what is worth an alert


def test_a_reason_is_told_once_it_has_held_for_five_seconds() -> None:
    damper = Damper()
    assert damper.observe({"a"}, 10.0) is None
    assert damper.observe({"a"}, 14.9) is None
    assert damper.observe({"a", "b"}, 15.0) == (["a"], [])
    assert damper.observe({"a", "b"}, 19.0) is None
    assert damper.observe({"b"}, 20.0) == (["b"], [])
    assert damper.observe({"b"}, 24.0) is None
    assert damper.observe(set(), 25.0) == ([], ["a"])
    assert damper.observe(set(), 30.0) == ([], ["b"])
    assert damper.observe(set(), 99.0) is None


def test_one_that_comes_and_goes_is_not_told() -> None:
    damper = Damper()
    for second in range(100):
        assert damper.observe({"a"} if second % 4 else set(), float(second)) is None
    assert damper.told == frozenset()
