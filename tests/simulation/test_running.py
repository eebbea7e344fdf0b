"""A comparison goes on where it was stopped, says how far it is, and whether the grid was steady."""

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
from broker.simulation.commands.kept_cases import TABLE, KeptCases
from broker.simulation.commands.running import Lines, run_cases, unsteady
from broker.simulation.commands.simulate import grid_of, size_of
from broker.simulation.model.comparing import Case, CaseResult, compare, simulate_case
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.plot import plot_differences
from broker.simulation.model.scenario_file import FixedScenario
from broker.simulation.model.steady import steady_after, steady_hour
from tests.simulation.small_grids import closed, task

SMALL = FixedScenario(closed(task(1)))
#: Seconds for two processes to start, and to end, on a machine with much other work.
PATIENCE_S = 120.0
CASES = [Case(name, name, seed, SMALL) for seed in (1, 2) for name in ("random", "least_loaded")]


class Counted:
    """Runs cases, and counts which; fails at one."""

    def __init__(self, stops_at: int | None = None) -> None:
        self.ran: list[tuple[str, int]] = []
        self._stops_at = stops_at

    def __call__(self, case: Case) -> CaseResult:
        if len(self.ran) == self._stops_at:
            raise KeyboardInterrupt
        self.ran.append((case.label, case.seed))
        return simulate_case(case)


def test_a_stopped_comparison_goes_on_where_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run_cases(CASES, 1, None, KeptCases(folder), Counted(stops_at=3))
    assert "least_loaded" in (folder / TABLE).read_text() and len(list(folder.glob("*.json"))) == 3
    again = Counted()
    results = run_cases(CASES, 1, None, KeptCases(folder), again)
    assert again.ran == [("least_loaded", 2)]
    alone = run_cases(CASES, 1, None)
    assert [_figures(one) for one in results] == [_figures(one) for one in alone]


def _figures(result: CaseResult) -> str:
    return repr(dataclasses.replace(result, decide_s=0.0, total_s=0.0))


def test_the_files_are_json_whatever_is_not_known(tmp_path: Path) -> None:
    kept = KeptCases(tmp_path)
    result = simulate_case(CASES[0])
    odd = dataclasses.replace(result, stats=dataclasses.replace(result.stats, tail=math.nan, wait_95_s=math.inf))
    kept.keep(CASES[0], odd)
    (file,) = tmp_path.glob("*.json")
    stats = json.loads(file.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["stats"]
    assert (stats["tail"], stats["wait_95_s"]) == ("nan", "inf")
    read = kept.found(CASES)[0].stats
    assert math.isnan(read.tail) and read.wait_95_s == math.inf


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(CASES[0], values=(("FLOW_BYTE_PRICE", 7),)),
        dataclasses.replace(CASES[0], scenario_of=FixedScenario(closed(task(1, jobs=11)))),
        dataclasses.replace(CASES[0], seed=3),
    ],
)
def test_a_case_of_other_settings_is_never_taken(other: Case, tmp_path: Path) -> None:
    kept = KeptCases(tmp_path)
    kept.keep(other, simulate_case(CASES[0]))
    assert kept.found(CASES) == {} and kept.others(CASES) == 1
    assert list(kept.found([other])) == [0] and kept.others([other]) == 0


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    kept = KeptCases(tmp_path)
    kept.keep(CASES[0], simulate_case(CASES[0]))
    (file,) = tmp_path.glob("*.json")
    file.write_text("{")
    with pytest.raises(SimulationError, match=file.name):
        kept.found(CASES)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SimulationError, match="the folder cannot be made"):
        KeptCases(tmp_path / "file")


def test_progress_in_lines_says_what_is_left() -> None:
    result = simulate_case(CASES[0])
    said: list[str] = []
    times = iter([0.0, 5.0, 60.0, 70.0, 240.0])
    lines = Lines(5, lambda: next(times), said.append)
    for place in range(4):
        lines(place, result)
    assert said == [
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
def test_the_beginning_that_is_left_out(values: np.ndarray, after: int | None) -> None:
    assert steady_after(values) == after


def test_a_grid_that_is_steady_too_late_is_named() -> None:
    hours = np.arange(100) / 6.0
    use = np.concatenate([np.linspace(0, 1, 20), np.tile([1.0, 1.1], 40)])
    assert steady_hour(hours, np.array([use, use])) == pytest.approx(20 / 6)
    one = dataclasses.replace(simulate_case(CASES[0]), hours=tuple(hours), curves={"use": tuple(use)})
    assert unsteady([one], 4.0 * 3600.0) == []
    assert "steady from hour 3.3 on" in unsteady([one], 3.0 * 3600.0)[0]
    rising = dataclasses.replace(one, curves={"use": tuple(np.linspace(0, 1, 100))})
    assert "not steady in the first half" in unsteady([rising], 3600.0)[0]


def test_differences_are_drawn(tmp_path: Path) -> None:
    results = run_cases(CASES, 1, None)
    assert [file.name for file in plot_differences(compare(results), tmp_path)] == ["differences.svg"]
    assert (tmp_path / "differences.svg").stat().st_size > 1000
    assert plot_differences(compare(results[::2]), tmp_path / "one") == []


def test_size_load_and_warm_up_are_those_of_the_options() -> None:
    sizes = (size_of(0.5, 6, 500, load, "2h") for load in (0.3, None))
    light, usual = (grid_of(None, "calm", one)(1) for one in sizes)
    assert light.warm_up_s == 7200.0
    assert sum(one.jobs for one in light.tasks) < 0.8 * sum(one.jobs for one in usual.tasks)


@pytest.mark.parametrize("option", [("--load", "0.5"), ("--warm-up", "1h"), ("--days", "1")])
def test_a_scenario_has_its_own_size(
    option: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("grid: calm\nparameters: {days: 0.1, queues: 4, cores: 200, warm_up_s: 0}\n")
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "--scenario", str(file), *option])
    assert ended.value.code == 3 and "belong to generated grids" in capsys.readouterr().err


def test_the_command_keeps_and_takes_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", "--policy", "random", "--days", "0.1", "--queues", "4", "--cores", "200", "--seeds", "2",
                 "--seed-from", "7", "--processes", "1", "--out", str(tmp_path), "--json"]  # fmt: skip
    shown = []
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        shown.append(capsys.readouterr())
    assert shown[0].out == shown[1].out and json.loads(shown[0].out)["seeds"] == [7, 8]
    assert "2 of 2 simulations are taken from" in shown[1].err


def test_words_name_no_figure_that_is_not_known_by_its_key() -> None:
    first, other = compare([simulate_case(case) for case in CASES[:2]])
    assert sentence(other, first) == "least_loaded, against random: delivers: not known; finishes tasks: not known"


def _waits_for_ever(case: Case) -> CaseResult:
    with Path(case.label).open("w", encoding="ascii") as told:
        told.write(".")
        told.flush()
        threading.Event().wait()
    raise AssertionError("it waited")


_KILLED = """
import sys
from tests.simulation.test_running import SMALL, _waits_for_ever
from broker.simulation.model.comparing import Case, simulate_all
if __name__ == "__main__":
    simulate_all([Case(sys.argv[1], "random", seed, SMALL) for seed in (1, 2)], 2, print, None, _waits_for_ever)
"""


def test_the_processes_of_a_comparison_that_is_killed_end_with_it(tmp_path: Path) -> None:
    """Each holds a pipe open, whose end is read when no process has it any more."""
    script, pipe = tmp_path / "killed.py", tmp_path / "pipe"
    script.write_text(_KILLED, encoding="utf-8")
    os.mkfifo(pipe)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    held = os.open(pipe, os.O_WRONLY)  # until the first process has it, there is no end to read
    with subprocess.Popen([sys.executable, str(script), str(pipe)], env=environment) as run:
        said = b""
        while len(said) < 2:
            assert select.select([reader], [], [], PATIENCE_S)[0], "the simulations did not begin"
            said += os.read(reader, 2)
        os.close(held)
        run.kill()
    assert select.select([reader], [], [], PATIENCE_S)[0], "processes go on without the one that started them"
    assert os.read(reader, 1) == b""
    os.close(reader)
