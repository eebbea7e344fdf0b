"""The section on a rule in this tree, walked literally in a copy: it touches the files that it names, and no other."""

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
#: What the page says is made.
MADE = ("docs/reference/", "docs/explanation/architecture.md", "tests/gdpconfig/defaults.yaml", "config/sources.yaml")
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", "build", "dist", ".*_cache", ".hypothesis", "results"
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the tree, in a repository of its own: some tests ask git for the files."""
    found = Path(shutil.copytree(ROOT, tmp_path / "tree", ignore=NOT_COPIED))
    program(found / "bin" / "make", MAKE)
    program(found / ".venv" / "bin" / "python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    subprocess.run("git init -q . && git add -A", cwd=found, shell=True, check=True)  # noqa: S602 - a text of this file
    return found


def digests(tree: Path) -> dict[str, str]:
    """The files of a tree that are neither compiled nor left by tests, with what is in them."""
    parts = {".git", "__pycache__", ".hypothesis", ".venv", "bin", "_data"}
    paths = [path for path in tree.rglob("*") if path.is_file() and not parts & {*path.relative_to(tree).parts}]
    return {str(path.relative_to(tree)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def follow(tree: Path) -> None:
    """Do what the section says: two new files, two lines in the list, one entry of the catalogue."""
    for name, text in FILES.items():
        assert not (tree / name).exists()
        (tree / name).write_text(text, encoding="utf-8")
    (behind,) = re.findall(r"behind\s+`(\w+\(\),)`", SECTION)
    lines = (tree / LIST).read_text(encoding="utf-8").splitlines(keepends=True)
    lines.insert(next(at for at, line in enumerate(lines) if line.strip() == behind) + 1, PLACE)
    imports = [at for at, line in enumerate(lines) if line.startswith("from broker.") and line < IMPORT]
    lines.insert(imports[-1] + 1, IMPORT)
    (tree / LIST).write_text("".join(lines), encoding="utf-8")
    with (tree / CATALOGUE).open("a", encoding="utf-8") as catalogue:
        catalogue.write(KEY)


def test_a_rule_with_a_key_is_four_files_and_what_is_made_of_them(tree: Path) -> None:
    before = digests(tree)
    follow(tree)
    done = run(tree, COMMANDS)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    after = digests(tree)
    touched = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    by_hand = {name for name in touched if not name.startswith(MADE)}
    assert by_hand == {*FILES, LIST, CATALOGUE}
    pages = {name for name in touched if name.startswith("docs/reference/")}
    assert pages == {f"docs/reference/{name}.md" for name in ("criteria", "gdpconfig", "reason-codes", "rules")}
    assert "max_starting" in (tree / "docs/reference/criteria.md").read_text(encoding="utf-8")


def test_the_walk_finds_a_rule_without_its_place_among_readers(tree: Path) -> None:
    follow(tree)
    catalogue = tree / CATALOGUE
    catalogue.write_text(catalogue.read_text(encoding="utf-8").replace("[max_starting]", "[cap]"), encoding="utf-8")
    done = run(tree, ".venv/bin/python -m pytest -q tests/gdpconfig/test_rule_keys.py")
    assert done.returncode == 1 and "add its code max_starting to read_by" in done.stdout
