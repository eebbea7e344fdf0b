"""The page on outputs in Rucio: its configuration files are valid, and its commands run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.service import registry
from agents.service.configuration import ProcessSettings
from broker.store.connection.database import Database
from tests.agents.feeds.running import Feeding
from tests.cli.commands import Command, runner
from tests.docs.source_tree import ROOT
from tests.pilots.panda.pilot_grid import rows
from tests.tasks.test_rucio_output import FakeWriter, end_jobs, register

PAGE = "docs/how-to/keep-outputs-in-rucio.md"
OUTPUTS = "outputs in agents.yaml"


def block(title: str) -> str:
    """The YAML block after a comment."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    (text_of_block,) = re.findall(rf"^<!-- {title} -->\n```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(text_of_block)


def test_the_agents_take_their_options() -> None:
    sections: dict[str, Any] = yaml.safe_load(block(OUTPUTS))["agents"]
    assert set(sections) == {"rucio_replicas", "rucio_output"}
    for name, section in sections.items():
        assert section["enabled"] is True
        registry.make(name, section.get("options", {}), ProcessSettings())


def test_a_chain_is_submitted_as_the_page_says(
    database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broker = runner(capsys, "--db", database.url)
    list_file = tmp_path / "files.txt"
    list_file.write_text("evgen.1\nevgen.2\nevgen.3\n", encoding="utf-8")
    first = submit_task(broker, tmp_path, block("first of a chain"), "--files", f"mc:evgen={list_file}")
    assert first["jobs"] == 2, "two files a job"
    text = block("second of a chain").replace("PARENT", str(first["jeditaskid"]))
    second = submit_task(broker, tmp_path, text)
    states = dict(rows(database, "SELECT jeditaskid, status FROM doma_panda.jedi_tasks"))
    assert states[second["jeditaskid"]] == "registered"


def submit_task(broker: Command, folder: Path, text: str, *options: str) -> dict[str, Any]:
    file = folder / "task.yaml"
    file.write_text(text, encoding="utf-8")
    result = broker("task", "submit", str(file), "--json", *options)
    assert result.status == 0, result.err
    return result.document


def test_the_commands_of_the_page_run(database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    commands = [line for line in text.splitlines() if line.startswith("broker outputs ")]
    assert len(commands) == 4
    feeding, rucio, broker = Feeding(database, tmp_path), FakeWriter(), runner(capsys, "--db", database.url)
    rucio.files["mc", "out.2"] = {"bytes": 99}
    end_jobs(database, feeding, rucio, 3)
    register(feeding, rucio)
    for line in commands[:2]:
        words = line.replace("10000000", "1").split()[1:]
        assert broker(*words).status == 0, line
    retry = broker(*commands[2].replace("10000000", "1").split()[1:])
    assert retry.status == 0, retry.err
