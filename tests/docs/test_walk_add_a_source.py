"""Follows the page on sources: its modules are added to a tree that lacks them, and its commands run there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.source_tree import ROOT

pytestmark = pytest.mark.walk
PAGE = (ROOT / "docs" / "how-to" / "add-a-source.md").read_text(encoding="utf-8")
MODULES = re.findall(r"`(broker/snapshot/sources/\w+\.py)`:\n\n```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
LINES = re.findall(r"^```python\n(from broker\S+ import \w+\n)( {4}\w+,\n)```$", PAGE, re.MULTILINE)
COMMANDS = re.findall(r"^```\n(.*?)^```$", PAGE[PAGE.index("## Then") :], re.MULTILINE | re.DOTALL)
LIST, SOURCES = "broker/snapshot/source_list.py", "config/sources.yaml"

#: A replacement for `make`, which uses the environment of the tests.
MAKE = """#!/bin/sh
test "$*" = reference && .venv/bin/python -m broker.cli.reference && .venv/bin/python -m tests.docs.make_pages
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def run(tree: Path, commands: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BROKER_CONFIG")}
    env = {**inherited, "PATH": f"{tree / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(tree)}
    return subprocess.run(["sh", "-ec", commands], cwd=tree, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the tree without the sources of the page."""
    ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", "build", "dist", ".*_cache", ".hypothesis")
    copied_tree = Path(shutil.copytree(ROOT, tmp_path / "tree", ignore=ignored))
    program(copied_tree / "bin" / "make", MAKE)
    program(copied_tree / ".venv" / "bin" / "python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    for path, _ in MODULES:
        (copied_tree / path).unlink()
    text = (copied_tree / LIST).read_text(encoding="utf-8")
    for import_line, list_line in LINES:
        assert text.count(import_line) == text.count(list_line) == 1
        text = text.replace(import_line, "").replace(list_line, "")
    (copied_tree / LIST).write_text(text, encoding="utf-8")
    (copied_tree / SOURCES).write_text("", encoding="utf-8")
    return copied_tree


def test_the_page_from_top_to_bottom(tree: Path) -> None:
    assert len(MODULES) == 2 and len(LINES) == 1 and len(COMMANDS) == 1
    assert run(tree, ".venv/bin/python -c 'import broker.snapshot.source_list'").returncode != 0
    for path, text in MODULES:
        (tree / path).write_text(text, encoding="utf-8")
    lines = (tree / LIST).read_text(encoding="utf-8").splitlines(keepends=True)
    ((import_line, list_line),) = LINES
    first = next(number for number, line in enumerate(lines) if line.startswith("from broker.snapshot.sources"))
    lines.insert(first, import_line)
    start = next(number for number, line in enumerate(lines) if line.startswith("OFFERED_SOURCES"))
    lines.insert(start + 1, list_line)
    (tree / LIST).write_text("".join(lines), encoding="utf-8")
    result = run(tree, COMMANDS[0])
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    # all sources of the snapshot, including those of the page
    assert (tree / SOURCES).read_text(encoding="utf-8") == (ROOT / SOURCES).read_text(encoding="utf-8")
