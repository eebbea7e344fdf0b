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

from broker.store.connection.database import Database
from broker.store.scenarios.scenario_file import write_scenario
from broker.whatif.commands.what_if_report import show
from broker.whatif.model.comparison import Difference
from broker.whatif.model.executor import Baseline
from tests.brokerages.small_grid import NOW, TASK, one_cycle
from tests.cli.commands import Command, runner
from tests.conftest import TestServer
from tests.whatif.stored import SEED, job_scenario

NO_QUEUE = "MIN_WEIGHT_managed=1000000"


@pytest.fixture(scope="module")
def url(test_server: TestServer) -> Iterator[str]:
    """A database with one cycle of production jobs."""
    with test_server.opened(test_server.create()) as database:
        assert one_cycle(database, job_scenario(), seed=SEED)[0].outcome == "done"
        yield database.url


@pytest.fixture
def command(url: str, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", url, "what-if", "--processes", "1")


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_changed_tasks_then_totals(command: Command) -> None:
    result = command("--set", NO_QUEUE, "--json")
    assert result.status == 0 and result.err.startswith("clock: ") and result.err.count("\n") == 1
    first, second, total = lines(result.out)
    assert [first["jeditaskid"], second["jeditaskid"]] == [TASK, TASK + 1]
    assert first["kind"] == "task" and first["loses_last_queue"]
    assert set(first["lost"].values()) == {"below_min_weight"}
    assert (total["kind"], total["brokerage"]) == ("total", "production_job")
    assert total["set"] == {"MIN_WEIGHT_managed": 1000000} and total["rules"] == {}
    assert total["tasks_losing_last_queue"] == 2
    assert total["outcomes"]["after"] == {"pending": 3}


def test_tables(command: Command) -> None:
    result = command("--rule", "lowmemory=off")
    assert result.status == 0
    for words in ("1 cycle(s): lowmemory=off", "1 of 3 decisions differ", "pending to brokered", "Rejections"):
        assert words in result.out
    assert "no decision differs" in command("--set", "NQUEUED_SAT_CAP=149").out


def test_an_empty_baseline_is_not_reported_as_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    show(Difference(), NO_QUEUE, Baseline())
    assert capsys.readouterr().out == "Baseline: no cycle.\nno cycle could be decided again\n"


def test_keys_that_no_brokerage_reads_are_reported(command: Command) -> None:
    result = command("--set", "TIMEOUT_pending=3", "--json")
    assert result.status == 0 and lines(result.out)[-1]["changed"] == 0
    assert "TIMEOUT_pending is read by timeouts, not by a brokerage" in result.err


def test_by_snapshot_and_by_time(command: Command, url: str) -> None:
    with Database(url) as database, database.begin() as connection:
        snapshot = connection.execute(sa.text("SELECT id FROM broker.snapshots")).scalar_one()
    assert lines(command("--set", NO_QUEUE, "--snapshot", snapshot, "--json").out)[-1]["cycles"] == 1
    later = (NOW + timedelta(hours=24)).isoformat()
    assert lines(command("--set", NO_QUEUE, "--last", "24h", "--at", later, "--json").out)[-1]["cycles"] == 1
    too_late = command("--set", NO_QUEUE, "--last", "23h", "--at", later)
    assert too_late.status == 4 and "there is no stored cycle from" in too_late.err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((), 2, "nothing to compare with"),
        (("--set", "MIN_WEIGHTS=3"), 4, "did you mean MIN_WEIGHT"),
        (("--set", "NQUEUED_SAT_CAP=x"), 3, "not a whole number"),
        (("--set", "NQUEUED_SAT_CAP=1", "--set", "NQUEUED_SAT_CAP=2"), 3, "contradict"),
        (("--set", "NQUEUED_SAT_CAP"), 2, "KEY=VALUE"),
        (("--rule", "lowmemry=off"), 4, "did you mean"),
        (("--rule", "status"), 2, "NAME=on"),
        (("--rule", "status=off", "--rule", "status=on"), 3, "contradict"),
        (("--set", NO_QUEUE, "--last", "1 fortnight"), 2, "write it as 24h"),
        (("--set", NO_QUEUE, "--last", "0h"), 2, "write it as 24h"),
        (("--set", NO_QUEUE, "--last", "1h", "--snapshot", "x"), 2, "give one of them"),
        (("--set", NO_QUEUE, "--snapshot", "none"), 4, "no snapshot none"),
        (("--set", NO_QUEUE, "--brokerage", "jobs"), 4, "known are production_task"),
        (("--set", NO_QUEUE, "--plot", "picture.pdf"), 2, "use .svg or .png"),
        (("--set", NO_QUEUE, "--scenario", "missing.json"), 1, "missing.json"),
    ],
)
def test_bad_input(command: Command, arguments: tuple[str, ...], status: int, message: str) -> None:
    result = command(*arguments)
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    error = command(*arguments, "--json").document["error"]
    assert error["exit_status"] == status and message in f"{error['what']} {error['where']} {error['what_to_do']}"


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_pictures(command: Command, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"picture{suffix}"
    assert command("--set", NO_QUEUE, "--plot", str(file)).status == 0
    assert file.read_bytes().lstrip().startswith(b"<?xml" if suffix == ".svg" else b"\x89PNG")
    missing = command("--set", NO_QUEUE, "--plot", str(tmp_path / "folder" / file.name))
    assert missing.status == 1 and "cannot be written" in missing.err


@pytest.mark.slow
def test_a_scenario_is_brokered_with_the_changed_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    scenario = job_scenario()
    file = tmp_path / "scenario.json"
    write_scenario(file, scenario)
    monkeypatch.setenv("BROKER_DATABASE_URL", "postgresql://nobody@/nothing?host=/nowhere")  # not needed
    run = runner(capsys, "what-if", "--processes", "1", "--seed", str(SEED), "--scenario", str(file))
    result = run("--set", "NQUEUELIMITSITE_MC Simulation=300", "--brokerage", "production_job", "--json")
    assert (result.status, result.err) == (0, "")
    total = lines(result.out)[-1]
    row = {"app": "jedi", "component": "jobbroker", "key": "NQUEUELIMITSITE_MC Simulation", "vo": "atlas"}
    row = {**row, "value": "300", "type": "integer"}
    scenario.tables["config"] = [row]
    _, decided = one_cycle(database, scenario, seed=SEED)
    jobs: Counter[str] = sum((Counter(decision["assigned"]) for decision in decided), Counter())
    predicted = {name: entry["jobs_after"] for name, entry in total["queues"].items() if entry["jobs_after"]}
    assert predicted == dict(jobs)
    assert total["changed"] > 0


@pytest.mark.slow
def test_a_sweep_prints_one_table_or_one_object_per_point(
    url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sweep = runner(capsys, "--db", url, "sweep", "MIN_WEIGHT_managed=0:1000000:1000000", "NQUEUED_SAT_CAP=10:20:10")
    result = sweep("--processes", "1", "--json")
    assert result.status == 0 and result.err.startswith("clock: ") and result.err.count("\n") == 1
    points = lines(result.out)
    assert [point["set"]["MIN_WEIGHT_managed"] for point in points] == [0, 0, 1000000, 1000000]
    assert [point["set"]["NQUEUED_SAT_CAP"] for point in points] == [10, 20, 10, 20]
    assert [point["tasks_losing_last_queue"] for point in points] == [0, 0, 2, 2]
    assert {point["kind"] for point in points} == {"point"}
    picture = tmp_path / "sweep.svg"
    table = sweep("--processes", "1", "--plot", str(picture))
    assert table.status == 0 and picture.stat().st_size > 0
    rows = [line.split() for line in table.out.splitlines() if "production_job" in line]
    assert [row[-2:] for row in rows] == [["190", "0"]] * 3 + [["0", "190"]] * 2


@pytest.mark.slow
def test_processes_share_the_work(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--db", url, "sweep", "MIN_WEIGHT_managed=0:1000000:1000000", "--json", "--processes")
    run = runner(capsys)
    assert run(*arguments, "2") == run(*arguments, "1")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("NQUEUED_SAT_CAP=1:2",), 2, "FROM:TO:STEP"),
        (("NQUEUED_SAT_CAPS=1:2:1",), 4, "did you mean NQUEUED_SAT_CAP"),
        (("NW_ACTIVE=0:1:1",), 3, "only numbers"),
        (("NQUEUED_SAT_CAP=1:100001:50000",), 3, "is larger than"),
        (("NQUEUED_SAT_CAP=1:2:1", "--dask", "nowhere"), 1, "nobody answers"),
    ],
)
def test_bad_sweeps(
    url: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, message: str
) -> None:
    result = runner(capsys, "--db", url, "sweep", "--processes", "1")(*arguments)
    assert (result.status, result.out) == (status, "")
    assert message in result.err
