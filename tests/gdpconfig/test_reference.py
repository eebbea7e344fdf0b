"""The generated reference page of keys is up to date."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from broker.gdpconfig.catalogue import Value, shipped_catalogue
from broker.gdpconfig.reference import default_in_words, render_reference, shown

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "gdpconfig.md"


def test_the_page_matches_the_catalogue() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_reference(shipped_catalogue()), "run: make reference"


def test_every_key_is_on_the_page() -> None:
    text = render_reference(shipped_catalogue())
    for entry in shipped_catalogue():
        assert f"### `{entry.pattern}`\n\n{entry.meaning}" in text


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("NQUEUED_SAT_CAP", "150"),
        ("NQUEUELIMITSITE", "NQUEUELIMITSITE, else 20 (also for 0)"),
        ("MIN_WEIGHT", "MIN_WEIGHT_<label>, else 0"),
        ("DISK_THRESHOLD", "DISK_THRESHOLD, else 100"),
        ("MERGE_JOB_MAX_WALLTIME", "no limit"),
    ],
)
def test_defaults_in_words(key: str, words: str) -> None:
    assert default_in_words(shipped_catalogue().entry(key)) == words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (None, "none"),
        (1.7, "1.7"),
        (2.0, "2"),
        (0.1 + 0.2, "0.30000000000000004"),
        (math.inf, "no limit"),
    ],
)
def test_values_as_shown_on_the_page(value: Value | None, text: str) -> None:
    assert shown(value) == text
