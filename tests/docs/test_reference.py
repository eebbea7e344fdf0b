"""The reference pages that are made from the code are up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli.reference import PAGES
from tests.docs import make_pages

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    page = (FOLDER / name).read_text(encoding="utf-8")
    assert page == PAGES[name](), "run: make reference"


@pytest.mark.parametrize("path", make_pages.PAGES, ids=lambda path: path.name)
def test_what_the_tree_says_twice_is_the_same(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == make_pages.PAGES[path](), "run: make reference"
