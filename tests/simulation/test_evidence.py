"""The tables of the page of policies, and the grids under stress that they are made on."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import yaml

from benchmarks import evidence
from broker.simulation.model import stresses
from broker.simulation.model.comparing import Comparison
from broker.simulation.model.generated_grid import DAY_S, GridParameters
from broker.simulation.model.grids import GRIDS
from broker.simulation.model.intervals import Interval
from broker.simulation.model.merit import Stats

SIZE = GridParameters(days=0.5, queues=6, cores=500, nuclei=2, warm_up_s=7200.0)


def comparison(label: str, delivered: float, width: float, first: float | None = None) -> Comparison:
    names = list(Stats.__dataclass_fields__)
    means = {name: Interval(0.5, 0.01, 10) for name in names} | {"delivered": Interval(delivered, 0.02, 10)}
    differences = {} if first is None else {name: Interval(0.0, 0.004, 10) for name in names}
    if first is not None:
        differences["delivered"] = Interval(delivered - first, width, 10)
    return Comparison(label, tuple(range(10)), means, differences, frozenset(), {"delivered": 77})


@pytest.mark.parametrize(
    ("delivered", "width", "said"),
    [
        (0.56, 0.02, "6 ± 2: better"),
        (0.44, 0.02, "-6 ± 2: worse"),
        (0.50, 0.01, "0 ± 1: no difference"),
        (0.50, 0.011, "0 ± 1.1: not told, 77 seeds would"),  # 2 % of .5 are .01
    ],
)
def test_each_difference_has_a_verdict(delivered: float, width: float, said: str) -> None:
    rows = evidence.table("calm", [comparison("seed", 0.5, 0.0), comparison("flow", delivered, width, 0.5)])
    assert said in rows and "| not run |" in rows


def test_what_can_be_done_is_what_the_clairvoyant_schedule_does() -> None:
    rows = evidence.table("calm", [comparison("seed", 0.4, 0.0), comparison("clairvoyant", 0.8, 0.1, 0.4)])
    assert "| 50 % |" in rows.splitlines()[6] and "| 100 % |" in rows.splitlines()[7]


def test_cells_that_are_made_anew_replace_their_own_tables_only() -> None:
    page = f"text\n{evidence.BEGIN}\n### calm\nold\n\n### gone\nold\n\n{evidence.END}more\n"
    made = evidence.written(page, ["### full\nnew\n"], ["calm", "full"])
    assert made == f"text\n{evidence.BEGIN}\n### calm\nold\n\n### full\nnew\n\n{evidence.END}more\n"
    assert evidence.written(made, ["### calm\nnew\n"], ["calm", "full"]).count("new") == 2


def test_the_page_has_its_marks_and_every_cell_a_grid() -> None:
    page = evidence.PAGE.read_text(encoding="utf-8")
    assert page.count(evidence.BEGIN) == page.count(evidence.END) == 1
    asked = yaml.safe_load((evidence.ROOT / "benchmarks/evidence.yaml").read_text(encoding="utf-8"))
    assert {one["grid"] for one in asked["cells"]} <= set(GRIDS)
    for one in asked["cells"]:
        cases = evidence.cases_of(asked, one)
        assert len(cases) == asked["seeds"] * len(asked["policies"]) and cases[0].seed == 101


def test_a_table_is_made_of_kept_simulations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--reduced", "--only", "calm", "--seeds", "2", "--out", str(tmp_path)]
    evidence.main(arguments)
    first = capsys.readouterr().out
    assert "### calm" in first and "| least_loaded_local |" in first
    evidence.main(arguments)
    again = capsys.readouterr()
    assert again.out == first and "6 of 6 simulations are taken from" in again.err


@pytest.mark.slow
def test_the_reduced_set_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence.main(["--reduced", "--out", str(tmp_path)])
    assert capsys.readouterr().out.count("### ") == 13


def test_a_cell_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        evidence.main(["--only", "moon"])
    assert "there are: calm, full" in capsys.readouterr().err


def test_one_user_floods_twice_the_grid() -> None:
    made, calm = stresses.flood(SIZE, 1), stresses.calm(SIZE, 1)
    last = max(task.number for task in calm.tasks)
    more = [one for one in made.tasks if one.number > last]
    cores = sum(queue.cores for queue in made.queues)
    assert sum(one.jobs for one in more) == pytest.approx(2 * cores, abs=10) and {one.user for one in more} == {0}
    assert all(0.0 <= one.arrival_s - 0.2 * DAY_S < 300.0 and len(one.sources) <= 2 for one in more)


def test_the_work_of_ten_hours_comes_in_one() -> None:
    made, calm = stresses.burst(SIZE, 1), stresses.calm(SIZE, 1)
    inside = [one for one in made.tasks if 0.2 * DAY_S <= one.arrival_s < 0.2 * DAY_S + 3600.0]
    assert len(made.tasks) > len(calm.tasks) and len(inside) >= len(made.tasks) - len(calm.tasks)


def test_statistics_estimates_and_queues_are_wrong_as_they_are_called() -> None:
    calm = stresses.calm(SIZE, 1)
    assert stresses.old_statistics(SIZE, 1).ages.jobs_s == 900.0
    factors = {one.believed_factor for one in stresses.wrong_walltimes(dataclasses.replace(SIZE, days=3.0), 1).tasks}
    assert factors == {3.0, 1 / 3}
    (closed,) = stresses.recovery(SIZE, 1).outages
    largest = max(calm.queues, key=lambda queue: queue.cores)
    assert calm.queues[closed.queues[0]] == largest and (closed.start_s, closed.end_s) == (0.0, 0.2 * DAY_S)
    assert math.isclose(stresses.BEGINS * calm.end_s, closed.end_s)
