"""The two READMEs say the same, and what they say of commands, keys and files is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proxy.config import Config

ROOT = Path(__file__).parent.parent
READMES = ("README.md", "README.zh-CN.md")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def inline_code(text: str) -> set[str]:
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return set(re.findall(r"`([^`\n]+)`", prose))


def anchor(heading: str) -> str:
    """The name GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_both_have_the_same_parts() -> None:
    english, chinese = map(read, READMES)
    for language in ("bash", "json"):
        assert blocks(english, language) == blocks(chinese, language)
    shapes = [re.findall(r"^#+(?= )|^\||^- ", text, re.MULTILINE) for text in (english, chinese)]
    assert shapes[0] == shapes[1]
    assert inline_code(english) == inline_code(chinese)


def test_ci_runs_the_command_of_the_readme() -> None:
    _, test_command, *_ = blocks(read("README.md"), "bash")
    assert "scripts/test" in test_command
    assert read(".ci/run").endswith(f"\n{test_command}")


@pytest.mark.parametrize("name", READMES)
def test_every_key_is_explained_with_its_default(name: str) -> None:
    text = read(name)
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, re.MULTILINE))
    assert set(Config.model_fields) <= set(rows)
    for key, field in Config.model_fields.items():
        told = rows[key].strip("`")
        match field.default:
            case bool() | int() | float() as number:
                assert told == str(number).lower().removesuffix(".0"), key
            case str() as word if word:
                assert told == f'"{word}"', key


@pytest.mark.parametrize("name", READMES)
def test_links_lead_somewhere(name: str) -> None:
    text = read(name)
    headings = {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    targets = re.findall(r"\]\((?!https?:)([^)]+)\)", text)
    assert targets
    for target in targets:
        path, _, fragment = target.partition("#")
        assert not path or (ROOT / path).exists(), target
        assert not fragment or fragment in headings, target
