"""Every file of the repository that a decision, an explanation, a tutorial or a page for contributors names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.source_tree import ROOT, files, relative_path

PAGES = [
    *files("docs/adr", "docs/explanation", "docs/tutorial", suffix=".md"),
    *(ROOT / name for name in ("CONTRIBUTING.md", "GOVERNANCE.md", "README.md")),
]
#: A superseded decision keeps the paths of its time.
SUPERSEDED = re.compile(r"^Superseded by ", re.MULTILINE)
FOLDERS = sorted(
    re.escape(path.name)
    for path in ROOT.iterdir()
    if path.is_dir() and (not path.name.startswith(".") or path.name == ".ci")
)
#: A path that begins with a folder of the repository; what follows a placeholder such as ``<feature>`` is not read.
PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./-]*(?![\w./*<{{-])")
#: Placeholders in the name of a file.
STANDS_FOR_ANY = ("NNNN",)


def missing_paths(text: str) -> list[str]:
    """The paths in a text that do not exist."""
    if SUPERSEDED.search(text):
        return []
    named = {match[0].rstrip(".") for match in PATH.finditer(text)}
    return sorted(
        path for path in named if not any(part in path for part in STANDS_FOR_ANY) and not (ROOT / path).exists()
    )


@pytest.mark.parametrize("page", PAGES, ids=relative_path)
def test_named_paths_exist(page: Path) -> None:
    assert missing_paths(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("See `broker/rules/contract.py`.", []),
        ("See `broker/rules/contracts.py`.", ["broker/rules/contracts.py"]),
        ("Folders: `broker/rules/`, tests/nothing/.", ["tests/nothing/"]),
        ("A placeholder: `broker/<feature>/pages`, `schema/broker/NNNN_words.sql`, `docs/adr/*.md`.", []),
        ("Superseded by [decision 9](0009-x.md).\n\nSee `broker/nowhere.py`.", []),
        ("An address: https://example.org/docs/missing.html.", []),
    ],
)
def test_paths_are_recognised(text: str, missing: list[str]) -> None:
    assert missing_paths(text) == missing
