"""The commands of the page from nothing to the first brokered job: few, and exactly these lead there."""

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
    found = re.search(r"<!-- first job -->\n```console\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1].splitlines()


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="walk-"))
    folder.chmod(0o755)
    yield folder
    EmbeddedServer(folder / ".local/share/gridbroker").shut_down()


def test_they_are_few_and_begin_with_the_installation() -> None:
    assert len(commands()) <= MOST_COMMANDS
    assert commands()[0].startswith("pip install ")


@pytest.mark.walk
def test_they_lead_from_nothing_to_brokered_jobs(home: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("BROKER_", "XDG_"))}
    done = subprocess.run(
        ["bash", "-c", PRELUDE + "\n".join(commands()[1:])],
        cwd=home,
        env={**environment, "HOME": str(home), "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "\nready\n" in done.stderr
    assert "Brokered: 10 jobs at 1 queue." in done.stdout


def test_the_example_of_a_file_and_its_faults_are_as_the_page_says() -> None:
    example = re.search(r"```yaml\n(sites:\n.*?)```", PAGE, re.DOTALL)
    assert example is not None
    assert isinstance(read_sites(example[1].encode(), "sites.yaml"), Grid)
    with pytest.raises(SitesRefused) as refused:
        read_sites(
            example[1].replace("cores: 8", "cores: eight").replace("memory_mb", "memroy_mb").encode(), "sites.yaml"
        )
    shown = [f"error: sites.yaml, {one.sentence}" for one in refused.value.problems]
    assert "\n".join(shown) in PAGE


def test_the_first_task_is_the_one_that_the_page_shows() -> None:
    shipped = (ROOT / "config/first-task.yaml").read_text(encoding="utf-8")
    assert "\n".join(line for line in shipped.splitlines() if not line.startswith("#")) in PAGE
