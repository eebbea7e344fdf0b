"""Runs exactly the few commands with which the page leads from nothing to the first brokered job."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.feeds.model.sites_file.declared import Grid
from broker.feeds.model.sites_file.reading import SitesRefused, read_sites
from broker.store.connection.embedded import EmbeddedServer
from tests.docs.source_tree import ROOT

PAGE = (ROOT / "docs/how-to/run-a-small-experiment.md").read_text(encoding="utf-8")
MOST_COMMANDS = 8
PRELUDE = 'set -eu\nbroker() { "$PYTHON" -m broker.cli.entry "$@"; }\n'


def commands() -> list[str]:
    match = re.search(r"<!-- first job -->\n```console\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None
    return match[1].splitlines()


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="walk-"))
    folder.chmod(0o755)
    yield folder
    EmbeddedServer(folder / ".local/share/gridbroker").shut_down()


def test_the_commands_are_few_and_begin_with_the_installation() -> None:
    assert len(commands()) <= MOST_COMMANDS
    assert commands()[0].startswith("pip install ")


@pytest.mark.walk
def test_the_commands_lead_from_nothing_to_brokered_jobs(home: Path) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("BROKER_", "XDG_"))}
    result = subprocess.run(
        ["bash", "-c", PRELUDE + "\n".join(commands()[1:])],
        cwd=home,
        env={**inherited, "HOME": str(home), "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    assert "\nready\n" in result.stderr
    assert "Brokered: 10 jobs at 1 queue." in result.stdout


def test_the_example_file_and_its_error_messages_are_as_on_the_page() -> None:
    example = re.search(r"```yaml\n(sites:\n.*?)```", PAGE, re.DOTALL)
    assert example is not None
    assert isinstance(read_sites(example[1].encode(), "sites.yaml"), Grid)
    with pytest.raises(SitesRefused) as refused:
        read_sites(
            example[1].replace("cores: 8", "cores: eight").replace("memory_mb", "memroy_mb").encode(), "sites.yaml"
        )
    messages = [f"error: sites.yaml, {problem.sentence}" for problem in refused.value.problems]
    assert "\n".join(messages) in PAGE


def test_the_page_shows_the_shipped_first_task() -> None:
    shipped = (ROOT / "config/first-task.yaml").read_text(encoding="utf-8")
    assert "\n".join(line for line in shipped.splitlines() if not line.startswith("#")) in PAGE
