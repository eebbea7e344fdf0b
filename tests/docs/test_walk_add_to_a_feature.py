"""Follows the pages on answers, commands and agents in a copy: they name every file that is touched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from tests.brokerages import small_grid
from tests.docs.source_tree import ROOT
from tests.docs.test_walk_a_rule_in_the_tree import NOT_COPIED, digests
from tests.docs.test_walk_add_a_source import MAKE, program, run

pytestmark = [pytest.mark.walk, pytest.mark.timeout(1800)]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEW_FILE = re.compile(r"^`([^`\n]+\.(?:py|sql))`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Files that `make reference` generates.
GENERATED = ("docs/reference/", "docs/explanation/architecture.md")
FEATURE, WRITERS, AGENTS = "broker/grid/feature.py", "tests/agents/writers.py", "config/agents.yaml"
STATUSES, SAME_JSON = "tests/cli/test_exit_statuses.py", "tests/client/test_same_json.py"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    copied_tree = Path(shutil.copytree(ROOT, tmp_path / "tree", ignore=NOT_COPIED))
    program(copied_tree / "bin" / "make", MAKE)
    program(copied_tree / ".venv" / "bin" / "python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    subprocess.run("git init -q . && git add -A", cwd=copied_tree, shell=True, check=True)  # noqa: S602 - a text of this file
    return copied_tree


def page(name: str) -> str:
    return (ROOT / "docs" / "how-to" / name).read_text(encoding="utf-8")


def blocks(name: str) -> list[str]:
    """The blocks of a page that are not whole files, in order; the last one holds its commands."""
    file_texts = {text for _, text in NEW_FILE.findall(page(name))}
    return [text for _, text in BLOCK.findall(page(name)) if text not in file_texts]


def write_files(tree: Path, name: str) -> set[str]:
    """Write the new files of a page; NNNN becomes the number after the last schema migration."""
    last = max(int(step.name[:4]) for step in (tree / "schema" / "broker").glob("[0-9]*.sql"))
    texts = {path.replace("NNNN", f"{last + 1:04}"): text for path, text in NEW_FILE.findall(page(name))}
    for path, text in texts.items():
        assert not (tree / path).exists()
        (tree / path).write_text(text, encoding="utf-8")
    return set(texts)


def insert(tree: Path, path: str, prefix: str, text: str) -> None:
    """Insert text after the only line of a file that begins with ``prefix``."""
    lines = (tree / path).read_text(encoding="utf-8").splitlines(keepends=True)
    (index,) = [number for number, line in enumerate(lines) if line.startswith(prefix)]
    lines.insert(index + 1, text)
    (tree / path).write_text("".join(lines), encoding="utf-8")


def add_answer(tree: Path) -> tuple[set[str], str]:
    """Follow the page; return the files it names, and its commands."""
    files = write_files(tree, "add-an-answer.md")
    route, commands = blocks("add-an-answer.md")
    text = (tree / FEATURE).read_text(encoding="utf-8")
    assert text.count('    routes=("broker.grid.routes.grid",),\n') == 1
    (tree / FEATURE).write_text(text.replace('    routes=("broker.grid.routes.grid",),\n', route), encoding="utf-8")
    return {*files, FEATURE}, commands


def add_command(tree: Path) -> tuple[set[str], str]:
    files = write_files(tree, "add-a-command.md")
    entry, arguments, compared, commands = blocks("add-a-command.md")
    insert(tree, FEATURE, "    commands=(", entry)
    insert(tree, STATUSES, "NEEDS_A_DATABASE", arguments)
    insert(tree, SAME_JSON, "READING", compared)
    return {*files, FEATURE, STATUSES, SAME_JSON}, commands


def add_agent(tree: Path) -> tuple[set[str], str]:
    files = write_files(tree, "add-an-agent.md")
    entry, schedule, writer, commands = blocks("add-an-agent.md")
    insert(tree, FEATURE, "    agents={", entry)
    with (tree / AGENTS).open("a", encoding="utf-8") as agents:
        agents.write(schedule)
    insert(tree, WRITERS, "WRITERS: ", writer)
    return {*files, FEATURE, AGENTS, WRITERS}, commands


def check(tree: Path, files: set[str], commands: str, before: dict[str, str]) -> None:
    result = run(tree, commands)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    after = digests(tree)
    touched = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert {name for name in touched if not name.startswith(GENERATED)} == files


def check_elsewhere(tree: Path, database: Database) -> None:
    """Run the page's command with ``--server`` against the API of the tree: it answers as it does on this machine."""
    load(database, small_grid.scenario(), replace=True)
    ((command, name),) = re.findall(r"`(broker --server URL (\w+))`", page("add-a-command.md"))
    python, home = ".venv/bin/python -m broker.cli.entry", tree / ".venv" / "home"
    with subprocess.Popen(
        [tree / ".venv/bin/python", "-m", "broker.cli.entry", "--db", database.url, "api", "--port", "0"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "BROKER_HOME": str(home)},
        stderr=subprocess.PIPE,
        text=True,
    ) as serving:
        try:
            assert serving.stderr is not None
            url = next(found[1] for line in serving.stderr if (found := re.search(r"API: (http\S+)/api/v1", line)))
            for options in ("", " --json"):
                remote = run(tree, command.replace("broker", python, 1).replace("URL", url) + options)
                local = run(tree, f"{python} --db '{database.url}' {name}{options}")
                assert (remote.returncode, remote.stdout) == (0, local.stdout), remote.stderr
                assert "XX" in remote.stdout, "the cloud of the small grid"
        finally:
            serving.terminate()


def test_an_answer_and_its_command(tree: Path, database: Database) -> None:
    before = digests(tree)
    files, commands = add_answer(tree)
    check(tree, files, commands, before)
    before = digests(tree)
    files, commands = add_command(tree)
    check(tree, files, commands, before)
    check_elsewhere(tree, database)
    assert "broker clouds" in (tree / "docs/reference/command-line.md").read_text(encoding="utf-8")
    assert '"/api/v1/clouds"' in (tree / "docs/reference/openapi.json").read_text(encoding="utf-8")


def test_an_agent(tree: Path) -> None:
    add_answer(tree)
    assert run(tree, "make reference").returncode == 0
    before = digests(tree)
    files, commands = add_agent(tree)
    check(tree, files, commands, before)


def test_an_agent_that_writes_outside_its_transaction_is_reported(tree: Path) -> None:
    add_answer(tree)
    add_agent(tree)
    agent = tree / "agents/grid/cloud_counts.py"
    text = agent.read_text(encoding="utf-8")
    agent.write_text(text.replace("context.writing()", "context.database.begin()"), encoding="utf-8")
    result = run(tree, ".venv/bin/python -m pytest -q tests/agents/test_fences.py -k cloud_counts")
    assert result.returncode == 1, result.stdout[-2000:]
