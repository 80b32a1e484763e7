"""The page's files: nothing from elsewhere, nothing that the policy refuses, every word in both languages."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from proxy.dispatch.nodes import NodeState
from proxy.health import CODES

FILES = {file.name: file.read_text("utf-8") for file in (files("proxy.admin") / "dashboard").iterdir()}
HTML, CSS, WORDS = FILES["index.html"], FILES["page.css"], FILES["words.js"]
SCRIPTS = {name: text for name, text in FILES.items() if name.endswith(".js")}
JS = "\n".join(text for name, text in SCRIPTS.items() if name != "words.js")
SVG_NAMESPACE = "http://www.w3.org/2000/svg"
STATES = set(NodeState) - {NodeState.GONE}


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(HTML)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def values(self, *names: str) -> set[str]:
        return {attrs[name] or "" for _, attrs in self.tags for name in names if name in attrs}


def words(table: str) -> dict[str, set[str]]:
    """The keys of a table of words.js in each language."""
    text = WORDS.partition(f"const {table} = ")[2].partition("\n};")[0]
    blocks = re.findall(r"^  (en|zh): \{\n(.*?)^  \},", text, re.MULTILINE | re.DOTALL)
    return {language: set(re.findall(r'(\w+): (?:"[^"]*"|\[)', block)) for language, block in blocks}


@pytest.mark.parametrize("name", FILES)
def test_nothing_names_another_origin(name: str) -> None:
    text = FILES[name].replace(SVG_NAMESPACE, "")
    assert "://" not in text
    assert not re.search(r"""["'(]//""", text)
    assert "@import" not in text


def test_links_are_relative_or_data() -> None:
    links = Page().values("src", "href")
    assert {link for link in links if not link.startswith("data:")} == {"page.css", "page.js"}


def test_every_module_is_there_and_imported() -> None:
    imported = set(re.findall(r'from "\./(\w+\.js)"', "\n".join(SCRIPTS.values())))
    assert imported | {"page.js"} == set(SCRIPTS)


def test_nothing_inline_that_the_policy_would_refuse() -> None:
    for tag, attrs in Page().tags:
        assert tag != "style"
        assert tag != "script" or "src" in attrs
        assert not [name for name in attrs if name == "style" or name.startswith("on")]
    for forbidden in ("innerHTML", "insertAdjacentHTML", "eval(", 'setAttribute("style'):
        assert forbidden not in JS


def test_every_element_that_a_script_wants_is_there() -> None:
    ids = Page().values("id")
    made = set(re.findall(r'id: "?(\w+)"?', JS)) | {"scaling", "dispatch", "one", "name"}
    wanted = set(re.findall(r'\bget\("(\w+)"\)', JS))
    assert wanted <= ids | made


def test_every_word_in_both_languages_and_none_too_many() -> None:
    told = words("words")
    assert told["en"] == told["zh"]
    used = Page().values("data-text", "data-label") | set(re.findall(r"\bsay\.(\w+)", JS))
    # named by what they are of: states, directions, the link, orders and what each of them means
    used |= {*STATES, "up", "down"} | set(re.findall(r'(?:show\(|\? )"(\w+)"', FILES["live.js"]))
    orders = set(re.findall(r'"((?:drain|replace|resume)_node|remove_request|set_nodes)"', JS))
    orders |= {f"{order}_{what}" for order in ("hold", "resume") for what in ("scaling", "dispatch")}
    used |= orders | {f"about_{order}" for order in orders}
    used |= {
        "scaling",
        "dispatch",
        "drain",
        "replace",
        "resume",
        "served",
        "left",
        "refused",
        "stale",
        "connecting",
        "waits",
        "runs",
    }
    assert used == told["en"]


def test_every_reason_of_health_is_worded_in_both_languages() -> None:
    told = words("reasons")
    assert told == {"en": set(CODES), "zh": set(CODES)}


def test_every_state_has_a_colour_and_the_letter_it_is_told_by() -> None:
    for state in STATES:
        assert f".{state}" in CSS
        assert f'{state[0]}: "{state}"' in FILES["nodes.js"]


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2.2, of `#rrggbb`."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_and_every_band_stands_out_from_its_ground(scheme: str) -> None:
    light, dark = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", light if scheme == "light" else dark))
    grounds = [name for name in colours if name in ("page", "card") or name.endswith("-ground")]
    for ground in grounds:
        for text in ("text", "quiet"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for state in STATES:
        for ground in ("page", "card"):
            assert contrast(colours[f"{state}-text"], colours[ground]) >= 4.5, (state, ground)
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5
    for shape in (*STATES, "c1", "c2", "c3", "c4"):
        assert contrast(colours[shape], colours["card"]) >= 3, shape
