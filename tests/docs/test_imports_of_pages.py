"""Names of our packages imported in the Python blocks of pages exist, unless a page creates the file."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.source_tree import ROOT, files, relative_path

PAGES = files("docs", suffix=".md")
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
OURS = ("broker", "agents", "gridbroker_client")


def imports_of(text: str) -> Iterator[tuple[str, str]]:
    """Module and name of each import from our packages, in the blocks of a page that are complete programs."""
    for block in PYTHON.findall(text):
        try:
            tree = ast.parse(block)
        except SyntaxError:  # an excerpt of a file, not a program
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in OURS:
                yield from ((node.module, name.name) for name in node.names)


def missing(text: str, pages: str) -> list[str]:
    """The imports of a page that fail, without imports from files that only ``pages`` create."""
    return [
        f"from {module} import {name}" for module, name in imports_of(text) if not is_importable(module, name, pages)
    ]


def is_importable(module: str, name: str, pages: str) -> bool:
    qualified_name = f"{module}.{name}"
    for candidate in (module, qualified_name):
        file = f"{candidate.replace('.', '/')}.py"
        if not (ROOT / file).exists() and file in pages:
            return True
    try:
        return hasattr(importlib.import_module(module), name) or bool(importlib.import_module(qualified_name))
    except ImportError:
        return False


@pytest.fixture(scope="module")
def pages() -> str:
    return "".join(page.read_text(encoding="utf-8") for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=relative_path)
def test_each_name_that_a_page_imports_exists(page: Path, pages: str) -> None:
    assert missing(page.read_text(encoding="utf-8"), pages) == []


def test_a_moved_name_is_reported() -> None:
    moved = "from broker.grid.answers.queues import json_document"
    text = f"```python\n{moved}\nfrom broker.store import connection\nfrom broker.grid.model.clouds import one\n```\n"
    assert missing(text, "`broker/grid/answers/queues.py` and `broker/grid/model/clouds.py`") == [moved]
    assert missing(text, "") == [moved, "from broker.grid.model.clouds import one"]


def test_pages_have_imports(pages: str) -> None:
    assert sum(1 for _ in imports_of(pages)) > 30
