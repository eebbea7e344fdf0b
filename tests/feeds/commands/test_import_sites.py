"""``broker import sites``: it reports all faults together, and may follow changes of the file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import typer

from broker.errors import Refused
from broker.feeds.commands.sites_file import follow
from broker.store.connection.database import Database
from tests.agents.feeds.test_sites import SITES, B
from tests.cli.commands import Command, runner


@pytest.fixture
def broker(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", database.url)


@pytest.mark.slow
def test_it_reports_the_stored_rows_and_the_next_step(broker: Command, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(SITES + B)
    assert "would be on record" in broker("import", "sites", str(file), "--dry-run").err
    assert broker("queues").out.startswith("Queues: 0")
    result = broker("import", "sites", str(file))
    assert result.status == 0
    assert "2 sites, 2 queues, 2 endpoints are on record; next: broker doctor --ready" in result.err
    file.write_text(SITES)
    assert "note: site B is in the file no more: taken offline" in broker("import", "sites", str(file)).err
    assert broker("import", "log").err.splitlines() == ["run 2: queue B_CE is offline, was online"]


def test_every_fault_is_one_line_and_nothing_is_imported(broker: Command, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(SITES.replace("cores: 8", "coers: 8, status: onlin"))
    result = broker("import", "sites", str(file))
    assert (result.status, result.out) == (3, "")
    lines = result.err.splitlines()
    assert lines[0].startswith(
        f"error: {file}, line 4: sites.A.queues.A_CE.coers: is not known here; did you mean cores"
    )
    assert "did you mean online or offline?" in lines[1]
    assert lines[2] == f"2 faults in {file}: nothing was imported"
    as_json = [json.loads(line) for line in broker("import", "sites", str(file), "--json").out.splitlines()]
    assert [(fault["line"], fault["field"], fault["value"]) for fault in as_json] == [
        (4, "sites.A.queues.A_CE.coers", ""),
        (4, "sites.A.queues.A_CE.status", "onlin"),
    ]


def test_a_missing_file_is_refused(broker: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = broker("import", "sites", str(tmp_path / "none.yaml"))
    assert (missing.status, "cannot be read" in missing.err) == (3, True)
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))
    unnamed = broker("import", "sites")
    assert (unnamed.status, "write broker import sites FILE" in unnamed.err) == (2, True)
    (tmp_path / "sites.yaml").write_text(SITES)
    assert broker("import", "sites").status == 0


def test_a_followed_file_is_imported_only_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("1")
    imported: list[str] = []
    contents = iter(["1", "2", "2", "refused", "refused", "away", "end"])

    def work() -> int:
        imported.append(file.read_text() if file.exists() else "away")
        if imported[-1] == "2":
            raise typer.Exit(1)
        if imported[-1] == "refused":
            raise Refused("not the leader")
        return 0

    def pause(seconds: float) -> None:
        text = next(contents)
        if text == "end":
            raise KeyboardInterrupt
        if text == "away":
            file.unlink()
        elif file.read_text() != text:
            file.write_text(text)
            os.utime(file, ns=(len(imported), len(imported)))

    assert follow(file, work, pause) == 0
    assert imported == ["1", "2", "refused", "refused", "away"]
