"""``broker what-if`` as an operator uses it, on stored cycles and on a scenario file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.database import Database
from broker.store.scenario_file import write_scenario
from tests.brokerages.small_grid import NOW, TASK, one_cycle
from tests.cli.commands import Command, runner
from tests.conftest import TestServer
from tests.whatif.stored import SEED, job_scenario

NO_QUEUE = "MIN_WEIGHT_managed=1000000"


@pytest.fixture(scope="module")
def url(test_server: TestServer) -> Iterator[str]:
    """A database with one cycle of production jobs."""
    url = test_server.create()
    with Database(url) as database:
        assert one_cycle(database, job_scenario(), seed=SEED)[0].outcome == "done"
    yield url
    test_server.drop(sa.make_url(url).database or "")


@pytest.fixture
def command(url: str, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", url, "what-if", "--processes", "1")


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_changed_tasks_then_totals(command: Command) -> None:
    shown = command("--set", NO_QUEUE, "--json")
    assert (shown.status, shown.err) == (0, "")
    first, second, total = lines(shown.out)
    assert [first["jeditaskid"], second["jeditaskid"]] == [TASK, TASK + 1]
    assert first["kind"] == "task" and first["loses_last_queue"]
    assert set(first["lost"].values()) == {"below_min_weight"}
    assert (total["kind"], total["brokerage"]) == ("total", "production_job")
    assert total["set"] == {"MIN_WEIGHT_managed": 1000000} and total["rules"] == {}
    assert total["tasks_losing_last_queue"] == 2
    assert total["outcomes"]["after"] == {"pending": 3}


def test_tables(command: Command) -> None:
    shown = command("--rule", "lowmemory=off")
    assert shown.status == 0
    for words in ("1 cycle(s): lowmemory=off", "1 of 3 decisions differ", "pending to brokered", "Rejections"):
        assert words in shown.out
    assert "no decision differs" in command("--set", "NQUEUED_SAT_CAP=149").out


def test_by_snapshot_and_by_time(command: Command, url: str) -> None:
    with Database(url) as database, database.begin() as connection:
        snapshot = connection.execute(sa.text("SELECT id FROM broker.snapshots")).scalar_one()
    assert lines(command("--set", NO_QUEUE, "--snapshot", snapshot, "--json").out)[-1]["cycles"] == 1
    later = (NOW + timedelta(hours=24)).isoformat()
    assert lines(command("--set", NO_QUEUE, "--last", "24h", "--at", later, "--json").out)[-1]["cycles"] == 1
    late = command("--set", NO_QUEUE, "--last", "23h", "--at", later)
    assert late.status == 1 and "there is no stored cycle from" in late.err


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        ((), 2, "nothing to compare with"),
        (("--set", "MIN_WEIGHTS=3"), 2, "did you mean MIN_WEIGHT"),
        (("--set", "NQUEUED_SAT_CAP=x"), 3, "not a whole number"),
        (("--set", "NQUEUED_SAT_CAP=1", "--set", "NQUEUED_SAT_CAP=2"), 3, "contradict"),
        (("--set", "NQUEUED_SAT_CAP"), 2, "KEY=VALUE"),
        (("--rule", "lowmemry=off"), 2, "did you mean"),
        (("--rule", "status"), 2, "NAME=on"),
        (("--rule", "status=off", "--rule", "status=on"), 3, "contradict"),
        (("--set", NO_QUEUE, "--last", "1 fortnight"), 2, "write it as 24h"),
        (("--set", NO_QUEUE, "--last", "0h"), 2, "write it as 24h"),
        (("--set", NO_QUEUE, "--last", "1h", "--snapshot", "x"), 2, "give one of them"),
        (("--set", NO_QUEUE, "--snapshot", "none"), 1, "no snapshot none"),
        (("--set", NO_QUEUE, "--brokerage", "jobs"), 2, "known are production_task"),
        (("--set", NO_QUEUE, "--plot", "picture.pdf"), 2, "use .svg or .png"),
        (("--set", NO_QUEUE, "--scenario", "missing.json"), 1, "missing.json"),
    ],
)
def test_bad_input(command: Command, arguments: tuple[str, ...], status: int, told: str) -> None:
    shown = command(*arguments, "--json")
    assert (shown.status, shown.out) == (status, "")
    assert told in shown.err


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_pictures(command: Command, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"picture{suffix}"
    assert command("--set", NO_QUEUE, "--plot", str(file)).status == 0
    assert file.read_bytes().lstrip().startswith(b"<?xml" if suffix == ".svg" else b"\x89PNG")
    missing = command("--set", NO_QUEUE, "--plot", str(tmp_path / "folder" / file.name))
    assert missing.status == 1 and "cannot be written" in missing.err


def test_a_scenario_is_brokered_as_it_would_be_with_the_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    loaded = job_scenario()
    file = tmp_path / "scenario.json"
    write_scenario(file, loaded)
    monkeypatch.setenv("BROKER_DATABASE_URL", "postgresql://nobody@/nothing?host=/nowhere")  # it needs none
    run = runner(capsys, "what-if", "--processes", "1", "--seed", str(SEED), "--scenario", str(file))
    shown = run("--set", "NQUEUELIMITSITE_MC Simulation=300", "--brokerage", "production_job", "--json")
    assert (shown.status, shown.err) == (0, "")
    total = lines(shown.out)[-1]
    row = {"app": "jedi", "component": "jobbroker", "key": "NQUEUELIMITSITE_MC Simulation", "vo": "atlas"}
    row = {**row, "value": "300", "type": "integer"}
    loaded.tables["config"] = [row]
    _, decided = one_cycle(database, loaded, seed=SEED)
    jobs: Counter[str] = sum((Counter(one["assigned"]) for one in decided), Counter())
    predicted = {name: one["jobs_after"] for name, one in total["queues"].items() if one["jobs_after"]}
    assert predicted == dict(jobs)
    assert total["changed"] > 0
