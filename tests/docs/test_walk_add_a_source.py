"""The page on sources, walked literally: what it shows is put into a tree that lacks it, its commands run there."""

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

#: What `make` means here: the environment of the tests is the one that it would make.
MAKE = """#!/bin/sh
test "$*" = reference && .venv/bin/python -m broker.cli.reference && .venv/bin/python -m tests.docs.make_pages
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def run(tree: Path, commands: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BROKER_CONFIG")}
    env = {**kept, "PATH": f"{tree / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(tree)}
    return subprocess.run(["sh", "-ec", commands], cwd=tree, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the tree in which nobody has added the sources of the page."""
    ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", "build", "dist", ".*_cache", ".hypothesis")
    found = Path(shutil.copytree(ROOT, tmp_path / "tree", ignore=ignored))
    program(found / "bin" / "make", MAKE)
    program(found / ".venv" / "bin" / "python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    for path, _ in MODULES:
        (found / path).unlink()
    text = (found / LIST).read_text(encoding="utf-8")
    for imported, listed in LINES:
        assert text.count(imported) == text.count(listed) == 1
        text = text.replace(imported, "").replace(listed, "")
    (found / LIST).write_text(text, encoding="utf-8")
    (found / SOURCES).write_text("", encoding="utf-8")
    return found


def test_the_page_from_top_to_bottom(tree: Path) -> None:
    assert len(MODULES) == 2 and len(LINES) == 1 and len(COMMANDS) == 1
    assert run(tree, ".venv/bin/python -c 'import broker.snapshot.source_list'").returncode != 0
    for path, text in MODULES:
        (tree / path).write_text(text, encoding="utf-8")
    lines = (tree / LIST).read_text(encoding="utf-8").splitlines(keepends=True)
    ((imported, listed),) = LINES
    first = next(number for number, line in enumerate(lines) if line.startswith("from broker.snapshot.sources"))
    lines.insert(first, imported)
    start = next(number for number, line in enumerate(lines) if line.startswith("OFFERED_SOURCES"))
    lines.insert(start + 1, listed)
    (tree / LIST).write_text("".join(lines), encoding="utf-8")
    done = run(tree, COMMANDS[0])
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    # all sources of the snapshot, those of the page among them
    assert (tree / SOURCES).read_text(encoding="utf-8") == (ROOT / SOURCES).read_text(encoding="utf-8")
