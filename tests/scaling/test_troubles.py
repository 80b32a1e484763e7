"""What a provider's failures leave to be seen: in its own words, each once, and when they mended."""

from __future__ import annotations

from proxy.errors import ProviderError
from proxy.health import Failing
from proxy.scaling.troubles import Troubles
from proxy.stats import Stats


class Time:
    now = 100.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_the_same_words_are_one_trouble_and_others_another() -> None:
    troubles = Troubles(Stats(), clock=Time(), random=lambda: 1.0)
    troubles.fail("list", ProviderError("no answer"))
    troubles.fail("list", ProviderError("no answer"))
    troubles.fail("list", ProviderError("401 bad key", is_auth=True))
    troubles.fail("create", ProviderError("no stock"))
    told = [(t.operation, t.detail, t.count, t.in_a_row, t.mended_at) for t in troubles.recent]
    assert told == [
        ("create", "no stock", 1, 1, None),
        ("list", "401 bad key", 1, 3, None),
        ("list", "no answer", 2, 2, None),
    ]
    assert troubles.recent[2].at == 102.0, "of the last time"
    assert troubles.failing == [
        Failing("list", "401 bad key", 3, True),
        Failing("create", "no stock", 1, False),
    ]
    assert troubles.last_error == "create: no stock"


def test_what_works_again_is_mended_and_fails_anew_as_another() -> None:
    troubles = Troubles(Stats(), clock=Time(), random=lambda: 1.0)
    troubles.fail("list", ProviderError("no answer"))
    troubles.fail("list", ProviderError("500"))
    troubles.succeed("list")
    assert all(trouble.mended_at is not None for trouble in troubles.recent)
    assert (troubles.failing, troubles.last_error) == ([], None)
    mended = [trouble.mended_at for trouble in troubles.recent]
    troubles.succeed("list")
    troubles.fail("list", ProviderError("500"))
    assert [trouble.mended_at for trouble in troubles.recent] == [None, *mended]
    assert troubles.failing == [Failing("list", "500", 1, False)]


def test_the_last_twenty_are_kept() -> None:
    troubles = Troubles(Stats(), clock=Time(), random=lambda: 1.0)
    for number in range(50):
        troubles.fail("start", ProviderError(f"node {number}"))
    assert [trouble.detail for trouble in troubles.recent][:2] == ["node 49", "node 48"]
    assert len(troubles.recent) == 20
    assert troubles.failing[0].in_a_row == 50
