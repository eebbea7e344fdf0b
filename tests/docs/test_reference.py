"""The generated reference pages are up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli.reference import PAGES
from tests.docs import make_pages

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_is_up_to_date(name: str) -> None:
    page = (FOLDER / name).read_text(encoding="utf-8")
    assert page == PAGES[name](), "run: make reference"


@pytest.mark.parametrize("path", make_pages.PAGES, ids=lambda path: path.name)
def test_a_generated_file_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == make_pages.PAGES[path](), "run: make reference"
