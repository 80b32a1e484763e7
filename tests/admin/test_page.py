"""The page's files: nothing from elsewhere, nothing that the policy refuses, every word in both languages."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from proxy.dispatch.nodes import NodeState

FOLDER = files("proxy.admin") / "dashboard"
HTML, CSS, JS = ((FOLDER / f"{name}").read_text("utf-8") for name in ("index.html", "page.css", "page.js"))
SVG_NAMESPACE = "http://www.w3.org/2000/svg"


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(HTML)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def words() -> dict[str, set[str]]:
    blocks = re.findall(r"^  (en|zh): \{\n(.*?)^  \},", JS, re.MULTILINE | re.DOTALL)
    return {language: set(re.findall(r'(\w+): "[^"]*"', block)) for language, block in blocks}


@pytest.mark.parametrize("text", [HTML, CSS, JS], ids=["html", "css", "js"])
def test_nothing_names_another_origin(text: str) -> None:
    assert "://" not in text.replace(SVG_NAMESPACE, "")
    assert not re.search(r"""["'(]//""", text)
    assert "@import" not in text


def test_links_are_relative_or_data() -> None:
    links = [attrs[name] or "" for _, attrs in Page().tags for name in ("src", "href") if name in attrs]
    assert sorted(link for link in links if not link.startswith("data:")) == ["page.css", "page.js"]


def test_nothing_inline_that_the_policy_would_refuse() -> None:
    for tag, attrs in Page().tags:
        assert tag != "style"
        assert tag != "script" or "src" in attrs
        assert not [name for name in attrs if name == "style" or name.startswith("on")]
    assert "innerHTML" not in JS


def test_every_word_in_both_languages() -> None:
    told = words()
    assert told["en"] == told["zh"]
    used = {attrs["data-text"] for _, attrs in Page().tags if "data-text" in attrs}
    used |= set(re.findall(r"\bsay\.(\w+)", JS))
    used |= set(re.findall(r"showLink\(\"(\w+)\"\)", JS))
    used |= {str(state) for state in NodeState} - {"gone"}
    used |= {"up", "down"}
    assert used == told["en"]


def test_every_state_has_a_colour() -> None:
    for state in set(NodeState) - {NodeState.GONE}:
        assert f".{state}" in CSS
