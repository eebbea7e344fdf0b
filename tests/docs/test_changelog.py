"""The changelog is readable: one short line per change, no line twice, and a limited number in the newest version."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.docs.source_tree import ROOT

MOST_LINES = 150
LONGEST_LINE = 220


def newest(text: str) -> list[str]:
    """The lines of "Unreleased" without its heading; if it is empty, those of the newest version."""
    sections = [part.rstrip("\n").split("\n")[1:] for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]]
    return sections[0] or sections[1]


def faults(lines: list[str]) -> list[str]:
    """Lines that continue the previous one, and lines that occur twice."""
    continuations = [line for line in lines if line and not re.match(r"#{3,4} |- \S", line)]
    return continuations + [line for line, count in Counter(line for line in lines if line).items() if count > 1]


def test_each_change_is_one_line_without_repetition() -> None:
    assert faults(newest((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))) == []


def test_the_newest_version_has_a_limited_number_of_lines() -> None:
    assert 0 < len(newest((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))) <= MOST_LINES


def test_lines_of_the_newest_version_are_short() -> None:
    lines = newest((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert [line for line in lines if len(line) > LONGEST_LINE] == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("# C\n\n## Unreleased\n\n### Added\n- One.\n- Two.\n", 0),
        ("# C\n\n## Unreleased\n- One,\n  and more.\n", 1),
        ("# C\n\n## Unreleased\n- One.\n- One.\n\n## 1.0\n- One.\n", 1),
    ],
)
def test_faulty_lines_are_counted(text: str, count: int) -> None:
    assert len(faults(newest(text))) == count
