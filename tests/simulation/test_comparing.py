from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from broker.cli.main import main
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.gdpconfig.proposals import grid, read_ranges
from broker.simulation.commands.sweeping import sweep_simulated
from broker.simulation.model.comparing import Case, compare, simulate_all
from broker.simulation.model.errors import SimulationError, UnknownPolicyError
from broker.simulation.model.generated_grid import GridParameters
from broker.simulation.model.grids import GRIDS, make_grid
from broker.simulation.model.plot import plot_curves
from broker.simulation.model.policies.base import find_policy
from broker.simulation.model.scenario_file import FixedScenario, GridChoice, read_scenario
from tests.simulation.small_grids import closed, task

TINY = GridParameters(days=0.1, queues=4, cores=200, nuclei=1, users=5, outage_mean_days=0.0, warm_up_s=600.0)

WHOLE = """
name: two sites
days: 0.2
warm_up_s: 0
closed: true
shares: {A: 1, B: 2}
sites:
  - {name: S1, is_nucleus: true, storage_total: 1.0e+15, storage_used: 0, storage_out: 1.0e+9, storage_in: 1.0e+9}
  - {name: S2, is_nucleus: false, storage_total: 1.0e+15, storage_used: 0, storage_out: 1.0e+9, storage_in: 1.0e+9}
queues:
  - {name: Q1, site: 0, nodes: 2, node_cores: 16, node_memory_gb: 64, corepower: 10}
tasks:
  - {number: 1, kind: merge, jobs: 3, arrival_s: 0, share: 0, user: 0, priority: 500, sources: [0]}
link_bytes_s: [[0, 1, 1.0e+9]]
ages: {jobs_s: 300}
"""


def test_policies_are_compared_in_pairs_by_seed() -> None:
    choice = GridChoice("generated", TINY)
    cases = [Case(name, name, seed, choice) for seed in (1, 2, 3) for name in ("random", "least_loaded")]
    progress: list[int] = []
    results = simulate_all(cases, 1, lambda place, result: progress.append(place + 1))
    first, second = compare(results)
    assert (first.label, second.label, first.seeds, progress[-1]) == ("random", "least_loaded", (1, 2, 3), 6)
    assert first.differences == {}
    difference = second.means["use"].mean - first.means["use"].mean
    assert second.differences["use"].mean == pytest.approx(difference)


@pytest.mark.slow
def test_several_processes_give_the_same_results_as_one() -> None:
    cases = [Case("random", "random", seed, FixedScenario(closed(task(1)))) for seed in (1, 2)]
    alone, together = (simulate_all(cases, count, lambda place, result: None) for count in (1, 2))
    for single, parallel in zip(alone, together, strict=True):
        same_times = dataclasses.replace(parallel, decide_s=single.decide_s, total_s=single.total_s)
        assert repr(same_times) == repr(single)


@pytest.mark.slow
def test_curves_are_drawn(tmp_path: Path) -> None:
    results = simulate_all([Case("random", "random", 1, GridChoice("generated", TINY))], 1, lambda place, result: None)
    files = plot_curves(results, tmp_path / "plots")
    assert {"use.svg", "waiting_jobs.svg", "TB_over_the_WAN.svg", "transfers_waiting.svg"} <= {f.name for f in files}
    assert all(file.stat().st_size > 1000 for file in files)


@pytest.mark.parametrize("name", GRIDS)
def test_every_named_grid_can_run(name: str) -> None:
    scenario = make_grid(name, dataclasses.replace(TINY, queues=8, cores=400, nuclei=2), 1)
    assert scenario.tasks and len(scenario.queues) == 8


def test_unknown_names_are_refused() -> None:
    with pytest.raises(SimulationError, match="no grid is called moon"):
        make_grid("moon", TINY, 1)
    with pytest.raises(UnknownPolicyError, match=r"no policy is called luck.*data_first"):
        find_policy("luck")


def test_a_whole_scenario_is_read() -> None:
    make_scenario = read_scenario(WHOLE, "file.yaml")
    assert isinstance(make_scenario, FixedScenario)
    scenario = make_scenario(1)
    assert (scenario.queues[0].cores, scenario.ages.jobs_s, scenario.link_bytes_s) == (32, 300.0, {(0, 1): 1e9})
    assert scenario.shares == (("A", 1.0), ("B", 2.0))


def test_a_named_grid_is_read() -> None:
    choice = read_scenario("grid: full\nparameters: {days: 0.2, queues: 6, cores: 300, nuclei: 1, warm_up_s: 0}", "f")
    assert isinstance(choice, GridChoice) and choice.grid == "full"
    assert len(choice(1).queues) == 6
    changed_choice = read_scenario("grid: calm\nchanges: {cycle_s: 30, ages: {jobs_s: 0}}", "f")
    assert isinstance(changed_choice, GridChoice) and dict(changed_choice.changes)["cycle_s"] == 30.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "holds no scenario"),
        ("a: [", "not YAML"),
        ("grid: full\nsize: 3", "unknown key size"),
        ("grid: full\nparameters: {quees: 3}", "unknown key quees"),
        ("grid: full\nparameters: {queues: many}", "queues"),
        ("grid: full\nchanges: {kinds: {}}", "unknown key kinds"),
        ("grid: full\nchanges: {cycle_s: soon}", "'soon' is no number"),
        ("name: x", "days is missing"),
        (WHOLE.replace("corepower: 10", "corepower: -1"), "core power"),
        (WHOLE.replace("corepower: 10", "corepower: 10, power: 3"), "unknown key power"),
        (WHOLE.replace("[[0, 1, 1.0e+9]]", "[[0, 1, 0]]"), "link without bandwidth"),
        (WHOLE.replace("kind: merge", "kind: none"), "no kind of job"),
    ],
)
def test_a_bad_file_is_refused_with_its_entry(text: str, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        make_scenario = read_scenario(text, "file.yaml")
        make_scenario(1)


def simulate(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_info:
        main(["simulate", *arguments])
    return int(str(exit_info.value.code))


def test_the_command_prints_one_object_per_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(WHOLE, encoding="utf-8")
    options = ("--scenario", str(path), "--policy", "random", "--policy", "seed", "--seeds", "2", "--processes", "1")
    assert simulate(*options, "--json") == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["policy"], second["policy"], first["seeds"]) == ("random", "seed", [1, 2])
    assert first["figures"]["use"]["mean"] > 0 and first["figures"]["use"]["enough_seeds"] is False
    assert second["differences"]["use"]["values"] == 2
    assert simulate(*options) == 0
    output = capsys.readouterr()
    assert "2 seed(s) tell little" in output.err and "least_loaded" not in output.out and "+-" in output.out


@pytest.mark.slow
def test_a_tuning_key_is_judged_by_its_consequences(capsys: pytest.CaptureFixture[str]) -> None:
    points = grid(read_ranges(shipped_catalogue(), ["NQUEUELIMITSITE_MC Production=1:500:499"], "atlas"))
    tiny = GridChoice("full", dataclasses.replace(TINY, days=0.2))
    sweep_simulated(points, 1, 1, None, json=True, grid=("full", tiny))
    baseline, low, high = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (baseline["policy"], low["policy"]) == ("baseline", "NQUEUELIMITSITE_MC Production=1")
    assert low["figures"] != high["figures"], "the value reaches the broker in the loop"
    assert low["differences"]["use"]["values"] == 1


@pytest.mark.parametrize(
    ("arguments", "message", "status"),
    [
        (("--policy", "luck"), "no policy is called luck", 4),
        (("--grid", "moon"), "no grid is called moon", 3),
        (("--days", "-1"), "both are positive", 3),
        (("--scenario", "nowhere.yaml"), "cannot be read", 3),
    ],
)
def test_the_command_refuses_at_once(
    arguments: tuple[str, ...], message: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate(*arguments) == status
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("broker_home")
def test_results_that_cannot_be_stored_are_refused_before_the_simulation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.simulation.commands.running.simulate_all", None)
    assert simulate("--days", "0.1", "--queues", "4", "--cores", "200", "--store") == 4
    assert "there is no database yet" in capsys.readouterr().err
