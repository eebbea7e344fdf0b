"""What the pages import is there: each name of our packages in a block of Python, but for files that a page makes."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.source_tree import ROOT, files, shown

PAGES = files("docs", suffix=".md")
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
OURS = ("broker", "agents", "gridbroker_client")


def imported(text: str) -> Iterator[tuple[str, str]]:
    """Module and name of each import from our packages in the blocks of a page that are whole programs."""
    for block in PYTHON.findall(text):
        try:
            tree = ast.parse(block)
        except SyntaxError:  # lines to be put into a file, not a program
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in OURS:
                yield from ((node.module, name.name) for name in node.names)


def missing(text: str, pages: str) -> list[str]:
    """The imports of a page that fail, without those of files that are not in the tree and that ``pages`` make."""
    return [f"from {module} import {name}" for module, name in imported(text) if not is_there(module, name, pages)]


def is_there(module: str, name: str, pages: str) -> bool:
    whole = f"{module}.{name}"
    for one in (module, whole):
        file = f"{one.replace('.', '/')}.py"
        if not (ROOT / file).exists() and file in pages:
            return True
    try:
        return hasattr(importlib.import_module(module), name) or bool(importlib.import_module(whole))
    except ImportError:
        return False


@pytest.fixture(scope="module")
def pages() -> str:
    return "".join(page.read_text(encoding="utf-8") for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_each_name_that_a_page_imports_is_there(page: Path, pages: str) -> None:
    assert missing(page.read_text(encoding="utf-8"), pages) == []


def test_a_name_that_has_moved_is_found() -> None:
    moved = "from broker.grid.answers.queues import json_document"
    text = f"```python\n{moved}\nfrom broker.store import connection\nfrom broker.grid.model.clouds import one\n```\n"
    assert missing(text, "`broker/grid/answers/queues.py` and `broker/grid/model/clouds.py`") == [moved]
    assert missing(text, "") == [moved, "from broker.grid.model.clouds import one"]


def test_pages_import_something(pages: str) -> None:
    assert sum(1 for _ in imported(pages)) > 30
