"""Follows the section on a rule in this tree in a copy: it touches the files that it names, and no others."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.source_tree import ROOT
from tests.docs.test_walk_add_a_source import MAKE, program, run

pytestmark = [pytest.mark.walk, pytest.mark.timeout(1800)]
SECTION = (ROOT / "docs" / "how-to" / "add-a-rule.md").read_text(encoding="utf-8").split("\n## A rule in this tree")[1]
FILES = dict(re.findall(r"^`([^`\n]+\.py)`:\n\n```python\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL))
((IMPORT, PLACE),) = re.findall(r"^```python\n(from [^\n]+\n)( {4}# [^\n]+\n {4}\w+\(\),\n)```$", SECTION, re.MULTILINE)
(KEY,) = re.findall(r"^```yaml\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
(COMMANDS,) = re.findall(r"^```\n(.*?)^```$", SECTION.split("### Then")[1], re.MULTILINE | re.DOTALL)
LIST, CATALOGUE = "broker/brokerages/production_job/brokerage.py", "config/gdpconfig.yaml"
#: Files that the page says are generated.
GENERATED = (
    "docs/reference/",
    "docs/explanation/architecture.md",
    "tests/gdpconfig/defaults.yaml",
    "config/sources.yaml",
)
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", "build", "dist", ".*_cache", ".hypothesis", "results"
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the tree as a separate repository, as some tests list the files through git."""
    copied_tree = Path(shutil.copytree(ROOT, tmp_path / "tree", ignore=NOT_COPIED))
    program(copied_tree / "bin" / "make", MAKE)
    program(copied_tree / ".venv" / "bin" / "python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    subprocess.run("git init -q . && git add -A", cwd=copied_tree, shell=True, check=True)  # noqa: S602 - a text of this file
    return copied_tree


def digests(tree: Path) -> dict[str, str]:
    """Digests of the files of a tree, without compiled files and files left by tests."""
    parts = {".git", "__pycache__", ".hypothesis", ".venv", "bin", "_data"}
    paths = [path for path in tree.rglob("*") if path.is_file() and not parts & {*path.relative_to(tree).parts}]
    return {str(path.relative_to(tree)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def follow(tree: Path) -> None:
    """Follow the section: two new files, two lines in the list, one entry of the catalogue."""
    for name, text in FILES.items():
        assert not (tree / name).exists()
        (tree / name).write_text(text, encoding="utf-8")
    (previous_line,) = re.findall(r"behind\s+`(\w+\(\),)`", SECTION)
    lines = (tree / LIST).read_text(encoding="utf-8").splitlines(keepends=True)
    lines.insert(next(index for index, line in enumerate(lines) if line.strip() == previous_line) + 1, PLACE)
    imports = [index for index, line in enumerate(lines) if line.startswith("from broker.") and line < IMPORT]
    lines.insert(imports[-1] + 1, IMPORT)
    (tree / LIST).write_text("".join(lines), encoding="utf-8")
    with (tree / CATALOGUE).open("a", encoding="utf-8") as catalogue:
        catalogue.write(KEY)


def test_a_rule_with_a_key_is_four_files_and_generated_pages(tree: Path) -> None:
    before = digests(tree)
    follow(tree)
    result = run(tree, COMMANDS)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    after = digests(tree)
    touched = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    by_hand = {name for name in touched if not name.startswith(GENERATED)}
    assert by_hand == {*FILES, LIST, CATALOGUE}
    pages = {name for name in touched if name.startswith("docs/reference/")}
    assert pages == {f"docs/reference/{name}.md" for name in ("criteria", "gdpconfig", "reason-codes", "rules")}
    assert "max_starting" in (tree / "docs/reference/criteria.md").read_text(encoding="utf-8")


def test_a_rule_that_is_missing_from_read_by_is_reported(tree: Path) -> None:
    follow(tree)
    catalogue = tree / CATALOGUE
    catalogue.write_text(catalogue.read_text(encoding="utf-8").replace("[max_starting]", "[cap]"), encoding="utf-8")
    result = run(tree, ".venv/bin/python -m pytest -q tests/gdpconfig/test_rule_keys.py")
    assert result.returncode == 1 and "add its code max_starting to read_by" in result.stdout
