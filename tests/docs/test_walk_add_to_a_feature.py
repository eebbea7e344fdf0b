"""The pages on answers, commands and agents, walked literally in a copy: they name every file that is touched."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.source_tree import ROOT
from tests.docs.test_walk_a_rule_in_the_tree import NOT_COPIED, digests
from tests.docs.test_walk_add_a_source import MAKE, program, run

pytestmark = [pytest.mark.walk, pytest.mark.timeout(1800)]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEW_FILE = re.compile(r"^`([^`\n]+\.(?:py|sql))`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: What `make reference` makes.
MADE = ("docs/reference/", "docs/explanation/architecture.md")
FEATURE, WRITERS, AGENTS = "broker/grid/feature.py", "tests/agents/writers.py", "config/agents.yaml"
STATUSES = "tests/cli/test_exit_statuses.py"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    found = Path(shutil.copytree(ROOT, tmp_path / "tree", ignore=NOT_COPIED))
    program(found / "bin" / "make", MAKE)
    program(found / ".venv" / "bin" / "python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    subprocess.run("git init -q . && git add -A", cwd=found, shell=True, check=True)  # noqa: S602 - a text of this file
    return found


def page(name: str) -> str:
    return (ROOT / "docs" / "how-to" / name).read_text(encoding="utf-8")


def blocks(name: str) -> list[str]:
    """The blocks of a page that are no whole files, in order; the last is its commands."""
    whole = {text for _, text in NEW_FILE.findall(page(name))}
    return [text for _, text in BLOCK.findall(page(name)) if text not in whole]


def write_files(tree: Path, name: str) -> set[str]:
    """The new files of a page; NNNN becomes the number after the last step of the schema."""
    last = max(int(step.name[:4]) for step in (tree / "schema" / "broker").glob("[0-9]*.sql"))
    found = {path.replace("NNNN", f"{last + 1:04}"): text for path, text in NEW_FILE.findall(page(name))}
    for path, text in found.items():
        assert not (tree / path).exists()
        (tree / path).write_text(text, encoding="utf-8")
    return set(found)


def insert(tree: Path, path: str, behind: str, text: str) -> None:
    """Put text behind the only line of a file that begins so."""
    lines = (tree / path).read_text(encoding="utf-8").splitlines(keepends=True)
    (at,) = [number for number, line in enumerate(lines) if line.startswith(behind)]
    lines.insert(at + 1, text)
    (tree / path).write_text("".join(lines), encoding="utf-8")


def add_answer(tree: Path) -> tuple[set[str], str]:
    """Follow the page; the files it names, and its commands."""
    files = write_files(tree, "add-an-answer.md")
    route, commands = blocks("add-an-answer.md")
    text = (tree / FEATURE).read_text(encoding="utf-8")
    assert text.count('    routes=("broker.grid.routes.grid",),\n') == 1
    (tree / FEATURE).write_text(text.replace('    routes=("broker.grid.routes.grid",),\n', route), encoding="utf-8")
    return {*files, FEATURE}, commands


def add_command(tree: Path) -> tuple[set[str], str]:
    files = write_files(tree, "add-a-command.md")
    entry, arguments, commands = blocks("add-a-command.md")
    insert(tree, FEATURE, "    commands=(", entry)
    insert(tree, STATUSES, "NEEDS_A_DATABASE", arguments)
    return {*files, FEATURE, STATUSES}, commands


def add_agent(tree: Path) -> tuple[set[str], str]:
    files = write_files(tree, "add-an-agent.md")
    entry, schedule, writer, commands = blocks("add-an-agent.md")
    insert(tree, FEATURE, "    agents={", entry)
    with (tree / AGENTS).open("a", encoding="utf-8") as agents:
        agents.write(schedule)
    insert(tree, WRITERS, "WRITERS: ", writer)
    return {*files, FEATURE, AGENTS, WRITERS}, commands


def check(tree: Path, files: set[str], commands: str, before: dict[str, str]) -> None:
    done = run(tree, commands)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    after = digests(tree)
    touched = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert {name for name in touched if not name.startswith(MADE)} == files


def test_an_answer_and_its_command(tree: Path) -> None:
    before = digests(tree)
    files, commands = add_answer(tree)
    check(tree, files, commands, before)
    before = digests(tree)
    files, commands = add_command(tree)
    check(tree, files, commands, before)
    assert "broker clouds" in (tree / "docs/reference/command-line.md").read_text(encoding="utf-8")
    assert '"/api/v1/clouds"' in (tree / "docs/reference/openapi.json").read_text(encoding="utf-8")


def test_an_agent(tree: Path) -> None:
    add_answer(tree)
    assert run(tree, "make reference").returncode == 0
    before = digests(tree)
    files, commands = add_agent(tree)
    check(tree, files, commands, before)


def test_the_walk_finds_an_agent_that_writes_outside_its_transaction(tree: Path) -> None:
    add_answer(tree)
    add_agent(tree)
    agent = tree / "agents/grid/cloud_counts.py"
    text = agent.read_text(encoding="utf-8")
    agent.write_text(text.replace("context.writing()", "context.database.begin()"), encoding="utf-8")
    done = run(tree, ".venv/bin/python -m pytest -q tests/agents/test_fences.py -k cloud_counts")
    assert done.returncode == 1, done.stdout[-2000:]
