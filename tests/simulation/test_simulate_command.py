"""``broker simulate`` on the grid of a stored snapshot, and with the agents on a database."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.cli import context
from broker.cli.main import main
from broker.simulation.answers import simulated_agents
from broker.simulation.answers.simulated_agents import ThroughDatabase
from broker.simulation.answers.simulations import simulation_answer
from broker.simulation.commands import sweeping
from broker.simulation.model.generated_grid import GridParameters, generate
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.scenario_file import GridChoice
from broker.store.connection.database import Database
from broker.whatif.statements import runs
from tests.cli.commands import runner

SIZE = ("--days", "0.025", "--queues", "5", "--cores", "600", "--seeds", "1", "--processes", "1", "--json")
GRID = GridParameters(days=0.1, queues=5, cores=600, nuclei=1, warm_up_s=0.0)


@pytest.fixture(scope="module")
def database(shared_database: Database) -> Database:
    return shared_database


class Broker:
    """Runs the command line on a database and returns the object that it prints."""

    def __init__(self, database: Database, capsys: pytest.CaptureFixture[str]) -> None:
        self._database, self._capsys = database, capsys

    def __call__(self, *arguments: str) -> tuple[int, Any]:
        with pytest.raises(SystemExit) as exit_info:
            main(["--db", self._database.url, *arguments])
        output = self._capsys.readouterr().out
        return int(str(exit_info.value.code)), json.loads(output) if output.startswith("{") else output


@pytest.fixture
def broker(database: Database, capsys: pytest.CaptureFixture[str]) -> Broker:
    return Broker(database, capsys)


@pytest.mark.slow
def test_the_agents_on_a_database_give_the_same_figures(
    broker: Broker, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def existing_database(purpose: str) -> Iterator[Database]:
        yield database

    monkeypatch.setattr(simulated_agents, "scratch_database", existing_database)
    status, through = broker("simulate", "--through-database", "--grid", "2018", *SIZE)
    assert status == 0 and through["figures"]["use"]["mean"] > 0.01, through
    _, memory = broker("simulate", "--grid", "2018", *SIZE)
    assert through["figures"] == memory["figures"] and through["events"] == memory["events"]


def test_a_policy_that_is_no_agent_is_refused(broker: Broker) -> None:
    status, document = broker("simulate", "--through-database", "--policy", "seed", "--policy", "random", *SIZE)
    assert (status, document["error"]["what"]) == (3, "random: no agent decides so")


@pytest.mark.slow
def test_the_grid_comes_from_a_stored_snapshot(broker: Broker, database: Database, tmp_path: Path) -> None:
    loop = ClosedLoop(generate(GRID, 1), lambda scenario, seed: ThroughDatabase(scenario, seed, database), 1)
    while not loop.grid.tally.decided_chunks:
        loop.events.run(loop.events.now + 600.0)
    file = tmp_path / "grid.json.gz"
    assert broker("snapshot", "export", str(file))[0] == 0
    status, newest = broker("simulate", "--snapshot", "newest", "--policy", "least_loaded", *SIZE)
    assert status == 0 and newest["figures"]["use"]["mean"] > 0.01, newest
    _, exported = broker("simulate", "--snapshot", str(file), "--policy", "least_loaded", *SIZE)
    assert exported["figures"] == newest["figures"]


@pytest.mark.slow
def test_a_sweep_is_stored_like_a_simulation(
    database: Database, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "GRID", GridChoice("full", GRID))
    key = "NQUEUELIMITSITE_MC Production"
    result = runner(capsys, "--db", database.url, "sweep", f"{key}=1:500:499")(
        "--simulate", "--store", "--seeds", "1", "--processes", "1", "--json"
    )
    assert result.status == 0, result.err
    number = re.search(r"stored: simulation (\d+), page /simulations/\d+", result.err)
    assert number is not None, result.err
    objects = [json.loads(line) for line in result.out.splitlines()]
    with database.begin() as connection:
        answer = simulation_answer(runs.find(connection, int(number[1])), int(number[1]))
    assert (answer.asked.grid, answer.asked.policies) == ("sweep on full", ("baseline", f"{key}=1", f"{key}=500"))
    assert [item.figures["use"].mean for item in answer.policies] == [
        item["figures"]["use"]["mean"] for item in objects
    ]


def test_a_sweep_over_stored_cycles_cannot_be_stored_as_a_simulation(broker: Broker) -> None:
    status, document = broker("sweep", "NQUEUED_SAT_CAP=50:100:50", "--store", "--json")
    assert status == 3 and "add --simulate" in json.dumps(document["error"])


@pytest.mark.parametrize("option", [("--grid", "calm"), ("--out", "kept"), ("--profile", "mine.yaml")])
def test_options_of_a_simulated_grid_need_one(broker: Broker, option: tuple[str, str]) -> None:
    status, document = broker("sweep", "NQUEUED_SAT_CAP=50:100:50", *option, "--json")
    assert status == 3 and f"{option[0]} is about a simulated grid" in json.dumps(document["error"])


@pytest.mark.slow
def test_a_sweep_runs_on_a_custom_grid_with_a_custom_profile(
    database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    grid, profile = tmp_path / "grid.yaml", tmp_path / "mine.yaml"
    grid.write_text("grid: calm\nparameters: {days: 0.05, queues: 4, cores: 300, nuclei: 1, warm_up_s: 0}\n")
    profile.write_text("profile: mine\nextends: flow\n")
    result = runner(capsys, "--db", database.url, "sweep", "FLOW_BYTE_PRICE=1:5:4")(
        "--simulate", "--grid", str(grid), "--profile", str(profile), "--out", str(tmp_path / "out"), "--seeds", "1",
        "--processes", "1", "--json",
    )  # fmt: skip
    assert result.status == 0, result.err
    assert [json.loads(line)["policy"] for line in result.out.splitlines()] == [
        "baseline", "FLOW_BYTE_PRICE=1", "FLOW_BYTE_PRICE=5",
    ]  # fmt: skip
    assert len(list((tmp_path / "out").glob("*.json"))) == 3
    unknown_grid = runner(capsys, "--db", database.url, "sweep", "FLOW_BYTE_PRICE=1:5:4")(
        "--simulate", "--grid", "moon"
    )
    assert (
        unknown_grid.status == 3 and "no grid is called moon" in unknown_grid.err and "black_hole" in unknown_grid.err
    )


@pytest.mark.parametrize(
    ("arguments", "message", "status"),
    [
        (("--snapshot", "nothing"), "no snapshot nothing", 4),
        (("--snapshot", "nowhere.json"), "nowhere.json", 1),
        (("--snapshot", "newest", "--scenario", "grid.yaml"), "are two grids", 3),
    ],
)
def test_a_missing_snapshot_is_refused(broker: Broker, arguments: tuple[str, ...], message: str, status: int) -> None:
    exit_code, document = broker("simulate", *arguments, *SIZE)
    assert exit_code == status and message in json.dumps(document["error"])


@pytest.mark.parametrize(
    "command", [("simulate", *SIZE[:-1]), ("sweep", "NQUEUED_SAT_CAP=10:20:10", "--simulate")], ids=lambda one: one[0]
)
def test_without_its_packages_the_command_names_the_extra(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find_spec = context.find_spec
    monkeypatch.setattr(context, "find_spec", lambda name: None if name == "scipy" else find_spec(name))
    with pytest.raises(SystemExit) as exit_info:
        main(list(command))
    assert exit_info.value.code == 1
    message = 'error: not installed: scipy; extra simulate; pip install "gridbroker[simulate]"'
    assert capsys.readouterr().err.splitlines() == [message]
