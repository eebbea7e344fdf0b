"""The changelog is read by people: one line a change, each once, and few enough in the newest version."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.docs.source_tree import ROOT

MOST_LINES = 150


def newest(text: str) -> list[str]:
    """The lines of "Unreleased", or of the newest version where nothing was changed since; without the heading."""
    sections = [part.rstrip("\n").split("\n")[1:] for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]]
    return sections[0] or sections[1]


def faults(lines: list[str]) -> list[str]:
    """Lines that go on with the one before, or stand there twice."""
    odd = [line for line in lines if line and not re.match(r"#{3,4} |- \S", line)]
    return odd + [line for line, count in Counter(line for line in lines if line).items() if count > 1]


def test_each_change_is_one_line_and_stands_once() -> None:
    assert faults(newest((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))) == []


def test_what_is_new_can_be_read_in_one_go() -> None:
    assert 0 < len(newest((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))) <= MOST_LINES


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("# C\n\n## Unreleased\n\n### Added\n- One.\n- Two.\n", 0),
        ("# C\n\n## Unreleased\n- One,\n  and more.\n", 1),
        ("# C\n\n## Unreleased\n- One.\n- One.\n\n## 1.0\n- One.\n", 1),
    ],
)
def test_what_is_found(text: str, count: int) -> None:
    assert len(faults(newest(text))) == count
