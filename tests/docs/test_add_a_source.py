"""The page on sources shows existing modules, and the lines that list them."""

from __future__ import annotations

import re

from broker.snapshot.source_list import GRID_SOURCES, OFFERED_SOURCES
from tests.docs.source_tree import ROOT

PAGE = (ROOT / "docs" / "how-to" / "add-a-source.md").read_text(encoding="utf-8")
SHOWN = re.findall(
    r"`(broker/snapshot/sources/\w+\.py)`:\n\n```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL
)


def test_the_shown_modules_equal_those_of_the_tree() -> None:
    assert len(SHOWN) == 2
    for path, text in SHOWN:
        assert text == (ROOT / path).read_text(encoding="utf-8"), path


def test_each_source_is_a_module_of_its_name_and_a_line_in_the_list() -> None:
    names = [source.name for source in GRID_SOURCES] + [source.name for source in OFFERED_SOURCES]
    modules = {path.stem for path in (ROOT / "broker" / "snapshot" / "sources").glob("*.py")} - {"__init__"}
    assert sorted(names) == sorted(modules)
    assert "    RecentStarts,\n" in (ROOT / "broker/snapshot/source_list.py").read_text(encoding="utf-8")
