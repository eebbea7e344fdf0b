"""A comparison resumes after a stop, reports its progress, and reports whether the grid was steady."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import select
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from broker.cli.main import main
from broker.simulation.answers.figures_of_merit import sentence
from broker.simulation.commands.case_checkpoints import TABLE, CaseCheckpoints
from broker.simulation.commands.running import Lines, run_cases, unsteady
from broker.simulation.commands.simulate import grid_of, size_of
from broker.simulation.model.comparing import Case, CaseResult, compare, simulate_case
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.plot import plot_differences
from broker.simulation.model.scenario_file import FixedScenario
from broker.simulation.model.steady import steady_after, steady_hour
from tests.simulation.small_grids import closed, task

SMALL = FixedScenario(closed(task(1)))
#: Seconds for two processes to start and to end on a busy machine.
PATIENCE_S = 120.0
CASES = [Case(name, name, seed, SMALL) for seed in (1, 2) for name in ("random", "least_loaded")]


class RecordingRunner:
    """Runs and records cases, and is interrupted at one of them."""

    def __init__(self, stops_at: int | None = None) -> None:
        self.ran: list[tuple[str, int]] = []
        self._stops_at = stops_at

    def __call__(self, case: Case) -> CaseResult:
        if len(self.ran) == self._stops_at:
            raise KeyboardInterrupt
        self.ran.append((case.label, case.seed))
        return simulate_case(case)


def test_a_stopped_comparison_resumes(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run_cases(CASES, 1, None, CaseCheckpoints(folder), RecordingRunner(stops_at=3))
    assert "least_loaded" in (folder / TABLE).read_text() and len(list(folder.glob("*.json"))) == 3
    resumed = RecordingRunner()
    results = run_cases(CASES, 1, None, CaseCheckpoints(folder), resumed)
    assert resumed.ran == [("least_loaded", 2)]
    alone = run_cases(CASES, 1, None)
    assert [_figures(result) for result in results] == [_figures(result) for result in alone]


def _figures(result: CaseResult) -> str:
    return repr(dataclasses.replace(result, decide_s=0.0, total_s=0.0))


def test_the_files_are_json_even_with_unknown_figures(tmp_path: Path) -> None:
    case_store = CaseCheckpoints(tmp_path)
    result = simulate_case(CASES[0])
    odd = dataclasses.replace(result, stats=dataclasses.replace(result.stats, tail=math.nan, wait_95_s=math.inf))
    case_store.keep(CASES[0], odd)
    (file,) = tmp_path.glob("*.json")
    stats = json.loads(file.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["stats"]
    assert (stats["tail"], stats["wait_95_s"]) == ("nan", "inf")
    restored = case_store.load(CASES)[0].stats
    assert math.isnan(restored.tail) and restored.wait_95_s == math.inf


@pytest.mark.parametrize(
    "stored_case",
    [
        dataclasses.replace(CASES[0], values=(("FLOW_BYTE_PRICE", 7),)),
        dataclasses.replace(CASES[0], scenario_of=FixedScenario(closed(task(1, jobs=11)))),
        dataclasses.replace(CASES[0], seed=3),
    ],
)
def test_a_stored_case_with_other_settings_is_never_reused(stored_case: Case, tmp_path: Path) -> None:
    case_store = CaseCheckpoints(tmp_path)
    case_store.keep(stored_case, simulate_case(CASES[0]))
    assert case_store.load(CASES) == {} and case_store.others(CASES) == 1
    assert list(case_store.load([stored_case])) == [0] and case_store.others([stored_case]) == 0


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    case_store = CaseCheckpoints(tmp_path)
    case_store.keep(CASES[0], simulate_case(CASES[0]))
    (file,) = tmp_path.glob("*.json")
    file.write_text("{")
    with pytest.raises(SimulationError, match=file.name):
        case_store.load(CASES)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SimulationError, match="the folder cannot be made"):
        CaseCheckpoints(tmp_path / "file")


def test_progress_lines_state_the_remaining_time() -> None:
    result = simulate_case(CASES[0])
    messages: list[str] = []
    times = iter([0.0, 5.0, 60.0, 70.0, 240.0])
    lines = Lines(5, lambda: next(times), messages.append)
    for place in range(4):
        lines(place, result)
    assert messages == [
        "simulated 2 of 5 (last: random, seed 1); about 2 min left",
        "simulated 4 of 5 (last: random, seed 1); about 1 min left",
    ]


@pytest.mark.parametrize(
    ("values", "after"),
    [
        (np.concatenate([np.linspace(0, 1, 20), np.tile([1.0, 1.1], 40)]), 20),
        (np.tile([1.0, 1.1], 50), 0),
        (np.linspace(0, 1, 100), None),
        (np.ones(49), None),
    ],
)
def test_the_unsteady_beginning_is_left_out(values: np.ndarray, after: int | None) -> None:
    assert steady_after(values) == after


def test_a_grid_that_is_steady_too_late_is_named() -> None:
    hours = np.arange(100) / 6.0
    use = np.concatenate([np.linspace(0, 1, 20), np.tile([1.0, 1.1], 40)])
    assert steady_hour(hours, np.array([use, use])) == pytest.approx(20 / 6)
    steady = dataclasses.replace(simulate_case(CASES[0]), hours=tuple(hours), curves={"use": tuple(use)})
    assert unsteady([steady], 4.0 * 3600.0) == []
    assert "steady from hour 3.3 on" in unsteady([steady], 3.0 * 3600.0)[0]
    rising = dataclasses.replace(steady, curves={"use": tuple(np.linspace(0, 1, 100))})
    assert "not steady in the first half" in unsteady([rising], 3600.0)[0]


def test_differences_are_drawn(tmp_path: Path) -> None:
    results = run_cases(CASES, 1, None)
    assert [file.name for file in plot_differences(compare(results), tmp_path)] == ["differences.svg"]
    assert (tmp_path / "differences.svg").stat().st_size > 1000
    assert plot_differences(compare(results[::2]), tmp_path / "one") == []


def test_size_load_and_warm_up_follow_the_options() -> None:
    sizes = (size_of(0.5, 6, 500, load, "2h") for load in (0.3, None))
    light, usual = (grid_of(None, "calm", item)(1) for item in sizes)
    assert light.warm_up_s == 7200.0
    assert sum(item.jobs for item in light.tasks) < 0.8 * sum(item.jobs for item in usual.tasks)


@pytest.mark.parametrize("option", [("--load", "0.5"), ("--warm-up", "1h"), ("--days", "1")])
def test_a_scenario_has_its_own_size(
    option: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("grid: calm\nparameters: {days: 0.1, queues: 4, cores: 200, warm_up_s: 0}\n")
    with pytest.raises(SystemExit) as exit_info:
        main(["simulate", "--scenario", str(file), *option])
    assert exit_info.value.code == 3 and "belong to generated grids" in capsys.readouterr().err


def test_the_command_stores_and_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", "--policy", "random", "--days", "0.1", "--queues", "4", "--cores", "200", "--seeds", "2",
                 "--seed-from", "7", "--processes", "1", "--out", str(tmp_path), "--json"]  # fmt: skip
    outputs = []
    for _ in range(2):
        with pytest.raises(SystemExit) as exit_info:
            main(arguments)
        assert exit_info.value.code == 0
        outputs.append(capsys.readouterr())
    assert outputs[0].out == outputs[1].out and json.loads(outputs[0].out)["seeds"] == [7, 8]
    assert "2 of 2 simulations are taken from" in outputs[1].err


def test_a_sentence_never_names_an_unknown_figure_by_its_key() -> None:
    first, second = compare([simulate_case(case) for case in CASES[:2]])
    assert sentence(second, first) == "least_loaded, against random: delivers: not known; finishes tasks: not known"


def _waits_for_ever(case: Case) -> CaseResult:
    with Path(case.label).open("w", encoding="ascii") as pipe:
        pipe.write(".")
        pipe.flush()
        threading.Event().wait()
    raise AssertionError("it waited")


_KILLED = """
import sys
from tests.simulation.test_running import SMALL, _waits_for_ever
from broker.simulation.model.comparing import Case, simulate_all
if __name__ == "__main__":
    simulate_all([Case(sys.argv[1], "random", seed, SMALL) for seed in (1, 2)], 2, print, None, _waits_for_ever)
"""


def test_the_processes_of_a_killed_comparison_end_with_it(tmp_path: Path) -> None:
    """Each holds a pipe open; the reader sees its end once no process has it open."""
    script, pipe = tmp_path / "killed.py", tmp_path / "pipe"
    script.write_text(_KILLED, encoding="utf-8")
    os.mkfifo(pipe)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)  # keeps the pipe open until the first process opens it
    with subprocess.Popen([sys.executable, str(script), str(pipe)], env=environment) as run:
        received = b""
        while len(received) < 2:
            assert select.select([reader], [], [], PATIENCE_S)[0], "the simulations did not begin"
            received += os.read(reader, 2)
        os.close(writer)
        run.kill()
    assert select.select([reader], [], [], PATIENCE_S)[0], "processes go on without the one that started them"
    assert os.read(reader, 1) == b""
    os.close(reader)
