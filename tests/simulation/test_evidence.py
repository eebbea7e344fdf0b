"""The tables of the page of policies, and the grids under stress that they are made on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from benchmarks import evidence
from benchmarks.evidence_by_seed import FIGURES, with_recorded
from broker.cli.context import NotADuration
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.simulation.model import stresses
from broker.simulation.model.comparing import Case, CaseResult, Comparison
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.figures import Stats
from broker.simulation.model.generated_grid import DAY_S, GridParameters, expected_core_s
from broker.simulation.model.grids import GRIDS
from broker.simulation.model.intervals import Interval
from broker.simulation.model.job_kinds import Fixed, fixed_kind
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.policies.base import find_policy
from broker.simulation.model.scenario import TransferOutage
from broker.simulation.model.scenario_checks import check
from broker.simulation.model.scenario_file import GridChoice
from tests.simulation.small_grids import ONE_HOUR_HS06S, closed, task

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


def test_a_cell_may_set_the_period_of_cycles() -> None:
    size = {"days": 0.25, "queues": 6, "cores": 500, "warm_up": "1h"}
    settings = {"size": size, "first_seed": 101, "seeds": 1, "policies": ["seed"]}
    usual, longer = (
        evidence.cases_of(settings, {"name": "calm", "grid": "calm", "size": own})[0] for own in ({}, {"cycle": "5m"})
    )
    assert usual.scenario_of(101).cycle_s == 60.0
    assert longer.scenario_of(101) == dataclasses.replace(usual.scenario_of(101), cycle_s=300.0)
    with pytest.raises(NotADuration, match="calm: cycle"):
        evidence.cases_of(settings, {"name": "calm", "grid": "calm", "size": {"cycle": "soon"}})


def test_recorded_seeds_are_read_and_the_others_run_and_added(tmp_path: Path) -> None:
    cases = [Case("seed", "seed", seed, GridChoice("calm", SIZE)) for seed in (101, 102, 103)]
    ran: list[int] = []

    def run(missing: Sequence[Case]) -> list[CaseResult]:
        ran.extend(case.seed for case in missing)
        stats = Stats(*([0.125, math.nan, math.inf] * len(FIGURES))[: len(FIGURES)])
        return [CaseResult(case.label, case.seed, stats, (1.0,), {"use": (0.5,)}, 7, 1.26, 2.0) for case in missing]

    path = tmp_path / "cell.csv"
    first = with_recorded(cases[1:], path, run)
    assert ran == [102, 103] and [result.seed for result in first] == [102, 103]
    every = with_recorded(cases, path, run)
    assert ran == [102, 103, 101] and [result.seed for result in every] == [101, 102, 103]
    assert (every[0].label, every[0].curves, every[0].events, every[0].decide_s) == ("seed", {}, 7, 1.3)
    assert every[0].stats.delivered == 0.125 and every[0].stats.wait_mean_s == math.inf
    assert math.isnan(every[0].stats.finish_mean_s)
    with_recorded(cases[:1], path, run, anew=True)
    assert ran[3:] == [101] and len(path.read_text().splitlines()) == 4
    # another setting is another simulation
    with_recorded([dataclasses.replace(cases[0], values=(("KEY", 1),))], path, run)
    assert ran[4:] == [101] and len(path.read_text().splitlines()) == 5
    path.write_text("case,seed\n")
    with pytest.raises(ValueError, match="columns"):
        with_recorded(cases, path, run)


def test_cells_that_are_made_anew_replace_their_own_tables_only() -> None:
    page = f"text\n{evidence.BEGIN}\n### calm\nold\n\n### gone\nold\n\n{evidence.END}more\n"
    cells = [{"name": "calm"}, {"name": "full"}]
    made = evidence.written(page, ["### full\nnew\n"], cells)
    said = "With an unknown number of seeds: calm; full. All cells were run.\n"
    assert made == f"text\n{evidence.BEGIN}\n{said}\n### calm\nold\n\n### full\nnew\n\n{evidence.END}more\n"
    assert evidence.written(made, ["### calm\nnew\n"], cells).count("new") == 2


def test_what_the_tables_say_together_is_counted_in_them() -> None:
    better, worse = comparison("flow", 0.56, 0.02, 0.5), comparison("flow", 0.44, 0.02, 0.5)
    first = comparison("seed", 0.5, 0.0)
    tables = {name: evidence.table(name, [first, one]) for name, one in (("calm", better), ("full", worse))}
    said = evidence.summary(tables, ["outage", "moon"])
    seeds = len(first.seeds)
    assert said.startswith(f"With {seeds} seeds: calm; full. Not run: outage; moon.\n")
    assert "\n| flow | 2 | 1, 1, 0, 0 | " in said and "| seed |" not in said
    fewer = {**tables, "full": tables["full"].replace(f"{seeds} seeds.", "3 seeds.")}
    all_run = f"With {seeds} seeds: calm. With 3 seeds: full. All cells were run.\n"
    assert evidence.summary(fewer, []).startswith(all_run)
    assert "\n| flow | 1 | 1, 0, 0, 0 | " in evidence.summary(tables, [], {"full"})


def test_the_page_says_together_what_its_tables_say() -> None:
    page = evidence.PAGE.read_text(encoding="utf-8")
    asked = yaml.safe_load((evidence.ROOT / "benchmarks/evidence.yaml").read_text(encoding="utf-8"))
    assert evidence.written(page, [], asked["cells"]) == page


def test_the_page_has_its_marks_and_every_cell_a_grid() -> None:
    page = evidence.PAGE.read_text(encoding="utf-8")
    assert page.count(evidence.BEGIN) == page.count(evidence.END) == 1
    asked = yaml.safe_load((evidence.ROOT / "benchmarks/evidence.yaml").read_text(encoding="utf-8"))
    assert {one["grid"] for one in asked["cells"]} <= set(GRIDS)
    for one in asked["cells"]:
        cases = evidence.cases_of(asked, one)
        rows = asked["sets"][one["policies"]] if "policies" in one else asked["policies"]
        assert len(cases) == asked["seeds"] * len(rows) and cases[0].seed == 101


def test_profiles_with_what_is_learned_have_the_keys_of_gdpconfig() -> None:
    asked = yaml.safe_load((evidence.ROOT / "benchmarks/evidence.yaml").read_text(encoding="utf-8"))
    (cell,) = [one for one in asked["cells"] if one["name"] == "seed and what is learned, calm"]
    cases = {case.label: case for case in evidence.cases_of(asked, cell) if case.seed == 101}
    assert next(iter(cases)) == "seed" and cases["seed"].values == ()
    assert {case.policy for case in cases.values()} == {"seed"}
    both = dict(cases["seed, all of these"].values)
    for label, case in cases.items():
        assert dict(case.values).items() <= both.items(), label
    assert both["LEARNED_TRIAL_JOBS"] == 3 and set(both) <= {entry.key for entry in shipped_catalogue()}


@pytest.mark.slow
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
    cells = yaml.safe_load((evidence.ROOT / "benchmarks/evidence.yaml").read_text(encoding="utf-8"))["cells"]
    assert capsys.readouterr().out.count("### ") == len(cells)


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


def test_a_storage_links_and_a_vo_are_as_they_are_called() -> None:
    calm = stresses.calm(SIZE, 1)
    cores = [sum(queue.cores for queue in calm.queues if queue.site == site) for site in range(len(calm.sites))]
    (out,) = stresses.storage_out(SIZE, 1).transfer_outages
    assert cores[out.sites[0]] == max(cores) and (out.start_s, out.end_s) == pytest.approx((0.2 * DAY_S, 0.325 * DAY_S))
    (cut,) = stresses.link_out(SIZE, 1).transfer_outages
    nucleus = {a for a, _ in cut.links} & {b for _, b in cut.links if calm.sites[b].is_nucleus}
    assert len(cut.links) == 2 * (len(calm.sites) - 1) and nucleus
    made = stresses.one_vo(dataclasses.replace(SIZE, days=3.0), 1)
    work = [0.0] * 5
    for one in made.tasks:
        work[one.share] += one.jobs * expected_core_s(made.kinds[one.kind], 10.0)
    assert work[0] / sum(work) == pytest.approx(0.8, abs=0.02) and {weight for _, weight in made.shares} == {20.0}


READS = dataclasses.replace(fixed_kind("hour", 1, Fixed(ONE_HOUR_HS06S)), input_gb=1.0, output_gb=Fixed(1.0))


@pytest.mark.parametrize(
    ("out", "failed"),
    [
        (TransferOutage(0.0, 1e5), 0),
        (TransferOutage(0.0, 30.0, sites=(0,)), 0),  # the first job is assigned after a minute
        (TransferOutage(0.0, 300.0, sites=(0,)), 2),  # the only copy of the input
        (TransferOutage(0.0, 300.0, links=((1, 0),)), 0),  # the other way
        (TransferOutage(2000.0, 5000.0, sites=(0,)), 2),  # the output of the job that runs by then
    ],
)
def test_nothing_is_read_or_written_where_a_storage_is_out(out: TransferOutage, failed: int) -> None:
    scenario = dataclasses.replace(closed(task(1, 2), queues=1), kinds={"hour": READS}, transfer_outages=(out,))
    loop = ClosedLoop(scenario, find_policy("least_loaded"), 1)
    loop.run()
    tally = loop.grid.tally
    # a job that fails is tried again in the next minute, three times in all
    assert (tally.failed_jobs, tally.failed_attempts) == (failed, 3 * failed)


def test_output_waits_for_a_link_that_is_out() -> None:
    out = TransferOutage(0.0, 7200.0, links=((1, 0),))
    quick = dataclasses.replace(closed(task(1, 2), queues=2), kinds={"hour": READS}, transfer_outages=(out,))
    only = dataclasses.replace(quick, queues=quick.queues[1:])
    loop = ClosedLoop(only, find_policy("least_loaded"), 1)
    loop.run()
    assert loop.grid.tally.failed_transfers >= 2 and loop.grid.tally.failed_jobs == 0


def test_an_outage_of_nothing_is_refused() -> None:
    for wrong in (TransferOutage(0.0, 10.0, sites=(7,)), TransferOutage(5.0, 5.0, sites=(0,))):
        with pytest.raises(SimulationError):
            check(dataclasses.replace(closed(task(1)), transfer_outages=(wrong,)))
