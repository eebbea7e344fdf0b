"""Fits of job and link profiles, their files, and grids built from them."""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from broker.cli.main import main
from broker.simulation.model.calibration.calibration_file import read_calibration, write_calibration
from broker.simulation.model.calibration.check import (
    Measure,
    check_profiles,
    check_transfers,
    in_order,
    kolmogorov,
    sampling_floor,
)
from broker.simulation.model.calibration.fit import Calibration, calibrate
from broker.simulation.model.calibration.links import fit_links, transfer_figures
from broker.simulation.model.calibration.profiles import Quantiles, failure_class, read_profiles
from broker.simulation.model.calibration.quantile_fits import TwoHumped, TwoPiece, fit
from broker.simulation.model.calibration.records import profiles_of, read_records
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.grid import Grid
from broker.simulation.model.job_kinds import Fixed
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.policies.base import find_policy
from broker.simulation.model.scenario_file import read_scenario
from tests.simulation.small_grids import closed, queue, task

PROBABILITIES = np.array([0.1, 0.5, 0.9])


def profiles_document(labels: int = 12, seed: int = 1, first: int = 0) -> dict[str, Any]:
    """Profiles of random labels, and two sites that ran one campaign."""
    random = np.random.default_rng(seed)
    cells = []
    for number in range(first, first + labels):
        wall, cpu, memory = np.exp(random.normal([6.0, 4.5, 7.0], [1.2, 1.0, 0.5])).tolist()
        cells.append(
            {
                "label": f"name {number}", "jobs": 5000 - 100 * number, "failed": 50 * (number % 3),
                "queues": {"4G": 4000 - 100 * number, "8G": 1000}, "wall_s": _around(wall, 0.8),
                "cpu_s": _around(cpu, 0.6), "cpu_efficiency": _around(0.3, 0.4), "max_rss_mb": _around(memory, 0.2),
                "failures": {"0/0/0": 50 * (number % 3)} if number % 3 else {},
            }
        )  # fmt: skip
    queues = [
        {"set": f"campaign at site {site}", "queue": name, "memory_asked_mb": asked, "jobs": 9000, "failed": failed,
         "wall_s": _around(wall, 0.7), "cpu_s": _around(50.0, 0.5), "cpu_efficiency": _around(0.4, 0.3),
         "max_rss_mb": _around(asked / 3, 0.3)}
        for site, wall, failed in (("S", 100.0, 9), ("T", 400.0, 900))
        for name, asked in (("4G", 4096), ("8G", 8192))
    ]  # fmt: skip
    return {"source": "made up", "labels": cells, "queues": queues}


def _around(median: float, s: float) -> list[float]:
    spread = math.exp(1.2815515655446004 * s)
    return [median * math.exp(s * s / 2), median / spread, median, median * spread]


def fit_calibration() -> Calibration:
    return calibrate(read_profiles(profiles_document(), "made up"), fit_links(transfers(), "made up"))


def transfers() -> dict[str, Any]:
    sizes = [1e15 / (rank + 1) for rank in range(40)]
    return {
        "error_part_of_links_with_100_files": [0, 0, 0.004, 0.02, 0.09, 0.3, 0.5, 0.8],
        "concentration": [
            {"top_part": top, "part_of_bytes": part} for top, part in ((0.01, 0.2), (0.05, 0.5), (0.1, 0.65))
        ],
        "totals": {"links": 1200, "sites": 40, "bytes": 4e15, "mean_file_mb": 757},
        "sites": {"rows": [[rank + 1, size, 0, 0, size, 0, 0, 0, 0] for rank, size in enumerate(sizes)]},
        "error_components": {"links": 900, "sd_source": 1.0, "sd_destination": 2.0, "sd_link": 1.0},
    }  # fmt: skip


def test_two_pieces_have_the_quantiles_and_the_mean_of_a_lognormal() -> None:
    curve = fit(Quantiles(*_around(100.0, 0.5)))
    assert isinstance(curve, TwoPiece)
    assert curve.quantile(PROBABILITIES) == pytest.approx(_around(100.0, 0.5)[1:])
    assert curve.mean == pytest.approx(100.0 * math.exp(0.125))


def test_a_mean_far_off_makes_two_humps() -> None:
    curve = fit(Quantiles(mean=400.0, p10=60.0, p50=100.0, p90=170.0))
    assert isinstance(curve, TwoHumped) and curve.weight <= 0.5
    assert curve.quantile(PROBABILITIES) == pytest.approx([60, 100, 170], rel=0.05)
    assert curve.mean == pytest.approx(400.0, rel=0.05)


@pytest.mark.parametrize(("mean", "kind"), [(129.0, TwoPiece), (400.0, TwoHumped)])
def test_two_humps_need_a_mean_more_than_thirty_percent_off(mean: float, kind: type) -> None:
    # the two pieces have a mean of 107 here
    assert isinstance(fit(Quantiles(mean, 60.0, 100.0, 170.0)), kind)


@pytest.mark.parametrize(
    ("code", "expected"),
    [("1305/0/137", "memory"), ("1212/0/0", "memory"), ("1150/0/240", "looping"), ("0/0/0", "no_code"),
     ("1305/0/1", "payload"), ("1376/0/0", "other"), ("what", "other")],
)  # fmt: skip
def test_failures_have_classes(code: str, expected: str) -> None:
    assert failure_class(code) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"jobs": -1}, "jobs is -1"),
        ({"jobs": "many"}, "jobs is 'many'"),
        ({"failed": 6000}, "6000 of 5000 jobs failed"),
        ({"wall_s": [1, 2, 3]}, "is not mean, p10, p50, p90"),
        ({"wall_s": [1, 3, 2, 4]}, "the quantiles 3.0, 2.0, 4.0 fall"),
    ],
)
def test_a_wrong_profile_is_refused_with_its_place(change: dict[str, Any], message: str) -> None:
    document = profiles_document()
    document["labels"][0] |= change
    with pytest.raises(SimulationError, match=message) as raised:
        read_profiles(document, "file")
    assert raised.value.where.startswith("file: labels[0]")


@pytest.mark.parametrize(("jobs", "remaining"), [(29, 11), (30, 12)])
def test_a_cell_of_fewer_than_thirty_jobs_is_dropped_and_listed(jobs: int, remaining: int) -> None:
    document = profiles_document()
    document["labels"][3] |= {"jobs": jobs, "failed": 0}
    profiles = read_profiles(document, "file")
    assert len(profiles.labels) == remaining and len(profiles.dropped) == 12 - remaining


def test_label_names_do_not_affect_a_fit() -> None:
    document = profiles_document()
    for number, cell in enumerate(document["labels"]):
        cell["label"] = f"other {number}"
    assert calibrate(read_profiles(document, "x")) == calibrate(read_profiles(profiles_document(), "x"))
    assert "name 3" not in write_calibration(fit_calibration())


def test_a_calibration_round_trips_through_its_file() -> None:
    import yaml

    text = write_calibration(fit_calibration())
    assert text == write_calibration(fit_calibration())
    back = read_calibration(yaml.safe_load(text), "file")
    assert write_calibration(back) == text
    assert back.kinds[0].asked_mb == pytest.approx({4096.0: 0.8, 8192.0: 0.2})


def by_quantity(measures: list[Measure]) -> dict[tuple[str, str], Measure]:
    return {(measure.quantity, measure.measure.split(" ")[0]): measure for measure in measures}


def test_a_fit_meets_its_own_profiles() -> None:
    measures = by_quantity(check_profiles(fit_calibration(), read_profiles(profiles_document(), "made up")))
    for quantity in ("wall_s", "cpu_s", "cpu_efficiency", "max_rss_mb", "all quantities"):
        assert measures[f"{quantity} by label", "median"].passes and measures[f"{quantity} by queue", "p90"].passes
    assert measures["failure by label", "Kolmogorov"].value == 0.0
    assert measures["queue time", "p50"].passes is None, "what cannot be compared is not known"


def test_a_fit_does_not_meet_jobs_that_are_twice_as_long() -> None:
    document = profiles_document()
    for cell in document["labels"]:
        cell["wall_s"] = [2 * value for value in cell["wall_s"]]
    measures = by_quantity(check_profiles(fit_calibration(), read_profiles(document, "twice")))
    assert measures["wall_s by label", "median"].value == pytest.approx(math.log(2), abs=0.05)
    assert not measures["wall_s by label", "median"].passes and measures["cpu_s by label", "median"].passes


def test_the_sampling_floor_is_the_difference_of_true_halves() -> None:
    random = np.random.default_rng(3)
    samples = [
        np.exp(random.standard_normal((60, 1)) + np.zeros(3)) for _ in range(40)
    ]  # labels of one distribution, with a common shift of the three quantiles of each
    expected = np.median([float(np.quantile(in_order(one, two), 0.5)) for one, two in itertools.pairwise(samples)])
    floors = [
        sampling_floor(60, lambda one, two, sample=sample: float(np.quantile(in_order(sample[two], sample[one]), 0.5)))
        for sample in samples[:10]
    ]
    assert np.median([one for one in floors if one is not None]) == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize(("labels", "known"), [(9, False), (10, True)])
def test_few_labels_have_no_floor(labels: int, known: bool) -> None:
    profiles = read_profiles(profiles_document(labels), "made up")
    measures = by_quantity(check_profiles(calibrate(profiles), profiles))
    assert (measures["wall_s by label", "median"].floor is not None) is known
    assert measures["wall_s by queue", "median"].floor is None, "queues are matched one by one"
    assert measures["wall_s by label", "median"].below_floor is known


def test_a_limit_below_the_floor_is_reported_and_still_judged() -> None:
    measure = Measure("wall_s by label", "median", 0.2, 0.1, 33, floor=0.21)
    assert (measure.passes, measure.below_floor) == (False, True)
    assert measure.document()["floor"] == 0.21 and measure.document()["limit_below_floor"] is True
    assert not dataclasses.replace(measure, floor=0.1).below_floor


def test_label_failures_are_scaled_to_those_of_the_queues() -> None:
    document = profiles_document()
    jobs, failed = sum(cell["jobs"] for cell in document["labels"]), sum(cell["failed"] for cell in document["labels"])
    queue_row = {"set": "all", "memory_asked_mb": 4096, "wall_s": _around(100.0, 0.7), "failed": 3 * failed}
    more = document | {"queues": [{**queue_row, "queue": "4G", "jobs": 2 * jobs}]}
    scaled = calibrate(read_profiles(more, "more"))
    assert sum(kind.failed for kind in scaled.kinds) / jobs == pytest.approx(1.5 * failed / jobs, rel=0.01)
    assert "times 1.500" in scaled.notes[0]
    same = calibrate(read_profiles(document | {"queues": [{**queue_row, "queue": "4G", "jobs": jobs}]}, "same"))
    assert sum(kind.failed for kind in same.kinds) == failed and same.notes == ()


@pytest.mark.slow
def test_an_unknown_site_is_compared_with_its_campaign() -> None:
    document = profiles_document()
    for cell in document["queues"]:
        cell["set"] = "campaign at site R"
        cell["wall_s"] = _around(200.0, 0.7)
    measures = by_quantity(check_profiles(fit_calibration(), read_profiles(document, "R")))
    # 100 s at S and 400 s at T: 200 s
    assert measures["wall_s by queue", "median"].value == pytest.approx(0.0, abs=0.05)
    document["queues"][0]["set"] = "another campaign"
    note = by_quantity(check_profiles(fit_calibration(), read_profiles(document, "R")))[
        "wall_s by queue", "median"
    ].note
    assert note == "not known to the calibration: another campaign  4G"


def test_links_reproduce_failures_and_volumes() -> None:
    measures = check_transfers(fit_calibration(), transfer_figures(transfers(), "made up"))
    assert [measure.passes for measure in measures] == [True] * 6, [measure.document() for measure in measures]
    twice = transfers() | {"error_part_of_links_with_100_files": [0, 0, 0.01, 0.06, 0.25, 0.7, 0.9, 0.95]}
    assert not check_transfers(fit_calibration(), transfer_figures(twice, "twice"))[0].passes


def test_the_distance_of_two_distributions() -> None:
    assert kolmogorov(np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0])) == pytest.approx(1 / 3)


def test_a_calibrated_grid_runs_its_jobs() -> None:
    make_scenario = read_scenario(
        write_calibration(fit_calibration(), {"days": 0.1, "queues": 4, "cores": 300, "nuclei": 1, "warm_up_s": 0}), "f"
    )
    scenario = make_scenario(1)
    assert (
        len({sim_task.kind for sim_task in scenario.tasks}) > 3
        and scenario.enforce_walltime
        and scenario.memory_slack >= 0
    )
    run = ClosedLoop(scenario, find_policy("least_loaded"), 1).run()
    assert len(run.runs.of("finished")) > 20
    assert make_scenario(1) == scenario and make_scenario(2) != scenario


def grid_after_run(**changes: object) -> Grid:
    kind = dataclasses.replace(closed().kinds["hour"], memory_gb_core=2.0, memory_used_mb=Fixed(2.5 * 1024))
    scenario = dataclasses.replace(closed(task(1, 4)), kinds={"hour": kind}, **changes)  # type: ignore[arg-type]
    loop = ClosedLoop(scenario, find_policy("least_loaded"), 1)
    loop.run()
    return loop.grid


@pytest.mark.parametrize(("slack", "kills"), [(-1.0, 0), (0.2, 4), (0.25, 0), (0.3, 0)])
def test_jobs_that_use_too_much_memory_are_killed_and_get_twice_as_much(slack: float, kills: int) -> None:
    grid = grid_after_run(memory_slack=slack)
    assert grid.tally.over_memory == kills
    # memory counts by the start hour of jobs, so that a warm-up can be left out; killed jobs start again
    hours = list(grid.tally.memory.values())
    ran = 0 if slack < 0 else 4 + kills
    assert (sum(hour.ran for hour in hours), sum(hour.killed for hour in hours)) == (ran, kills)
    assert all(hour.requested_gb_h > 0 and hour.used_gb_h > 0 for hour in hours)
    assert grid.tally.failed_jobs == 0 and np.isfinite(grid.tasks[1].done_s).all()


@pytest.mark.parametrize(("enforced", "limit_s", "lost"), [(True, 3599.0, 4), (True, 3601.0, 0), (False, 3599.0, 0)])
def test_jobs_over_the_walltime_of_their_queue_are_lost(enforced: bool, limit_s: float, lost: int) -> None:
    grid = grid_after_run(queues=(queue(0, maxtime_s=limit_s),), enforce_walltime=enforced)
    assert grid.tally.failed_jobs == lost


RECORDS = (
    "jeditaskid,computingsite,jobstatus,wall_time,cpuconsumptiontime,actualcorecount,"
    "maxrss,minramcount,piloterrorcode\n"
)


def test_records_are_counted_by_task_and_queue(tmp_path: Path) -> None:
    lines = [f"7,A,finished,{100 + n},{50 + n},1,2048000,3000,0" for n in range(40)]
    lines += ["7,A,failed,,,1,,3000,1212"] * 2 + ["8,A,finished,10,5,1,1,2000,0"]
    document = profiles_of(read_records(RECORDS + "\n".join(lines), "f"), "own")
    assert (document["labels"][0]["jobs"], document["labels"][0]["failures"]) == (42, {"1212/0/0": 2})
    assert document["labels"][0]["wall_s"][2] == pytest.approx(119.5)
    assert document["labels"][0]["max_rss_mb"][2] == 2000.0
    assert document["queues"][0]["memory_asked_mb"] is None, "two tasks ask for different memory"
    assert "wall_s" not in document["labels"][1]
    with pytest.raises(SimulationError, match="no column wall_time"):
        read_records("jeditaskid,computingsite\n1,A", "f")
    with pytest.raises(SimulationError, match="no record"):
        read_records(RECORDS, "f")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_info:
        main(list(arguments))
    output = capsys.readouterr()
    return int(str(exit_info.value.code)), output.out, output.err


def test_the_command_fits_checks_and_simulates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs, links, grid = tmp_path / "jobs.json.gz", tmp_path / "links.json", tmp_path / "grid.yaml.gz"
    jobs.write_bytes(gzip.compress(json.dumps(profiles_document()).encode()))
    links.write_text(json.dumps(transfers()), encoding="utf-8")
    status, out, _ = run(
        capsys, "calibrate", "--profiles", str(jobs), "--profiles", str(links), "--out", str(grid), "--json"
    )
    summary = json.loads(out)
    assert (status, summary["kinds"], summary["links"]) == (0, 12, 900)
    status, out, _ = run(capsys, "calibrate", "--check", "--grid", str(grid), "--profiles", str(jobs), "--json")
    measures = [json.loads(line) for line in out.splitlines()]
    assert status == 0 and {"quantity", "value", "limit", "passes"} <= set(measures[0])
    size = ("--days", "0.05", "--queues", "4", "--cores", "300", "--seeds", "1", "--processes", "1", "--json")
    status, out, err = run(capsys, "simulate", "--grid", str(grid), "--policy", "least_loaded", *size)
    assert status == 0, err
    assert json.loads(out)["figures"]["use"]["mean"] > 0


@pytest.mark.parametrize(
    ("arguments", "message", "status"),
    [
        ((), "no jobs to fit", 3),
        (("--check",), "go together", 3),
        (("--to", "2026-01-01"), "without a beginning", 3),
        (("--since", "1d", "--from", "2026-01-01"), "two beginnings", 3),
        (("--profiles", "nowhere.json"), "cannot be read", 3),
    ],
)
def test_invalid_calibration_arguments_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str, status: int
) -> None:
    exit_code, _, err = run(capsys, "calibrate", *arguments)
    assert exit_code == status and message in err
