"""Whole scenarios calculated by hand: every candidate, factor and reason, the funnel, and the written rows."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from broker.decisions.answers.explain import answers_about
from broker.store.connection.database import Database
from tests.brokerages.small_grid import (
    FRESH,
    GB,
    TASK,
    dataset,
    input_files,
    jobs,
    one_cycle,
    replica,
    scenario,
    task,
)


def link(source: str, key: str, value: int) -> dict[str, Any]:
    """Make a fresh figure of the link from a site to the nucleus."""
    return {"src": source, "dst": "ALPHA", "key": key, "value": value, "ts": FRESH}


def weights(decision: dict[str, Any]) -> dict[str, float]:
    """Return the final weights by candidate."""
    return {candidate["name"]: candidate["weight"] for candidate in decision["candidates"]}


def funnel_cuts(decision: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the codes of the rules that removed candidates, with the numbers removed."""
    return [(code, before - after) for code, before, after in decision["funnel"] if before != after]


def written_jobs(database: Database, columns: str) -> list[tuple[Any, ...]]:
    """Return columns of the written jobs with their counts."""
    statement = f"SELECT {columns}, count(*) FROM doma_panda.jobsdefined4 WHERE jeditaskid = {TASK} GROUP BY {columns}"
    with database.begin() as connection:
        return sorted(tuple(row) for row in connection.execute(sa.text(statement)))


def test_simulation_without_input_is_ranked_by_jobs_and_links(database: Database) -> None:
    """40 jobs of pseudo input are ranked by running and waiting jobs, and by the link to ALPHA.

    ALPHA_MCORE: 49 running, 10 activated, 5 starting, 5 defined; at the nucleus.
        (49 + 1) / (10 + 5 + 5 + 10) = 1.6667; network 2.5; weight 4.16667
    BETA/MCORE: 19 running, 4 activated, 3 assigned (not counted without input to wait for); closeness 5, 30 files
        queued of 150, no throughput: network 0.5 x (2 - 30/150) + 0.5 x (1 + 6/11) = 1.67273
        (19 + 1) / (4 + 10) = 1.42857; weight 2.38961
    GAMMA_MCORE: 9 running, 40 activated: more than max(20, 2 x 9) wait, so it gets nothing.
    """
    grid = scenario(
        jedi_tasks=[task()],
        jedi_datasets=[dataset(40, type="pseudo_input", datasetname="pseudo_dataset")],
        jedi_dataset_contents=input_files(40, 0, type="pseudo_input"),
        jobsactive4=jobs("ALPHA_MCORE", 1000, running=49, activated=10, starting=5)
        + jobs("BETA", 2000, running=19, activated=4)
        + jobs("GAMMA_MCORE", 3000, running=9, activated=40),
        jobsdefined4=jobs("ALPHA_MCORE", 4000, defined=5) + jobs("BETA", 5000, assigned=3),
        network_matrix_kv=[link("BETA", "AGIS_closeness", 5), link("BETA", "Production Output_queued", 30)],
    )

    record, (decision,) = one_cycle(database, grid)

    assert record.outcome == "done"
    assert decision["outcome"] == "brokered"
    assert list(weights(decision)) == ["ALPHA_MCORE", "BETA/MCORE"]
    assert weights(decision) == pytest.approx({"ALPHA_MCORE": 25 / 6, "BETA/MCORE": 184 / 77})
    assert decision["candidates"][1]["factors"] == pytest.approx(
        {"running_queued": 10 / 7, "data_availability": 1, "nucleus_boost": 1, "network": 92 / 55, "cpu_level": 1}
    )
    assert decision["rejected"] == {
        "GAMMA_OFF": "status",
        "BETA/SCORE": "cpucore",
        "GAMMA_MCORE": "cap",
    }
    assert funnel_cuts(decision) == [("status", 1), ("cpucore", 1), ("cap", 1)]
    assert decision["funnel"][0][1] == 5
    assert sum(decision["assigned"].values()) == 40
    # a job of 100 events: 100 x 100 HS06 s / (8 cores x 10 HS06) = 125 s; memory 1500 x 8 x 0.9 MB
    assert {row[:-1] for row in written_jobs(database, "jobstatus, corecount, minramcount, maxwalltime, nucleus")} == {
        ("defined", 8, 10800, 125, "ALPHA")
    }
    assert {row[0] for row in written_jobs(database, "computingsite")} <= {"ALPHA_MCORE", "BETA"}


def test_work_goes_to_its_input(database: Database) -> None:
    """Ten files of 2 GB: all at BETA, six at GAMMA, none at the nucleus; no queue has jobs; IO intensity 100 kB/s.

    Every candidate begins with (0 + 1) / (0 + 10) = 0.1; priority 500 is too high to bootstrap.
    BETA/MCORE: all files: (20 + 20) / 20 / (0 / 100 + 1) = 2. Unknown link: network 0.5 x 2 + 0.5 x 1.3 = 1.65.
        weight 0.33
    GAMMA_MCORE: 12 of 20 GB, 4 files missing: (20 + 12) / 20 / 1.04 = 1.53846; weight 0.1 x 1.53846 x 1.65
    ALPHA_MCORE: no files: (20 + 0) / 20 / (10 / 100 + 1) = 0.90909; network 2.5; weight 0.22727
    """
    grid = scenario(
        jedi_tasks=[task(iointensity=100, splitrule="NF=5")],
        jedi_datasets=[dataset(10)],
        jedi_dataset_contents=input_files(10, 2 * GB),
        dataset_replicas=[replica("BETA", 10, 10), replica("GAMMA", 6, 10)],
    )

    _, (decision,) = one_cycle(database, grid)

    expected = {"BETA/MCORE": 0.33, "GAMMA_MCORE": 0.165 / 0.65, "ALPHA_MCORE": 0.25 / 1.1}
    assert list(weights(decision)) == list(expected)
    assert weights(decision) == pytest.approx(expected)
    assert decision["rejected"] == {"GAMMA_OFF": "status", "BETA/SCORE": "cpucore"}
    # two jobs of five files of 100 events each, so 500 x 100 / 80 s
    assert written_jobs(database, "nevents, inputfilebytes, ninputdatafiles, maxwalltime") == [
        (500, 10 * GB, 5, 625, 2)
    ]


def test_high_io_intensity_stays_with_the_data(database: Database) -> None:
    """The same input with 300 kB/s, above the cutoff of 200: queues that need at least 10 GB moved are rejected.

    ALPHA lacks 20 GB. Incomplete datasets no longer count, so GAMMA lacks 20 GB as well.
    """
    grid = scenario(
        jedi_tasks=[task(iointensity=300, splitrule="NF=5")],
        jedi_datasets=[dataset(10)],
        jedi_dataset_contents=input_files(10, 2 * GB),
        dataset_replicas=[replica("BETA", 10, 10), replica("GAMMA", 6, 10)],
    )

    _, (decision,) = one_cycle(database, grid)

    assert weights(decision) == pytest.approx({"BETA/MCORE": 0.33})
    assert decision["rejected"] == {
        "GAMMA_OFF": "status",
        "BETA/SCORE": "cpucore",
        "ALPHA_MCORE": "io",
        "GAMMA_MCORE": "io",
    }
    assert decision["assigned"] == {"BETA/MCORE": 2}


def test_merging_goes_to_the_unmerged_files(database: Database) -> None:
    """Unmerged files at BETA are merged there: single-core jobs of priority 5000 at the pseudo-queue of one core.

    GAMMA does not read BETA's storage, so it is no candidate. Memory is not checked when merging without a
    merge requirement, as here. A merged file may have 5 GB and is estimated as 1.2 times its input: 4 files.
    """
    grid = scenario(
        jedi_tasks=[task(corecount=1, mergecorecount=1, splitrule="NF=1,ZF=10,MO=1")],
        jedi_datasets=[dataset(20, type="trn_output", site="BETA")],
        jedi_dataset_contents=input_files(20, GB, type="trn_output"),
        dataset_replicas=[replica("BETA", 20, 20)],
    )

    _, (decision,) = one_cycle(database, grid)

    assert [candidate["name"] for candidate in decision["candidates"]] == ["BETA/SCORE"]
    assert decision["rejected"] == {"BETA/MCORE": "cpucore"}
    assert decision["funnel"][0][1] == 2
    assert written_jobs(database, "computingsite, currentpriority, processingtype, corecount, ninputdatafiles") == [
        ("BETA", 5000, "pmerge", 1, 4, 5)
    ]


def test_without_candidates_a_task_waits_an_hour_with_its_reasons(database: Database) -> None:
    """No queue has 64 GB of memory: the task is put on hold, and the funnel shows why."""
    grid = scenario(
        jedi_tasks=[task(ramcount=8000)],
        jedi_datasets=[dataset(5, type="pseudo_input", datasetname="pseudo_dataset")],
        jedi_dataset_contents=input_files(5, 0, type="pseudo_input"),
    )

    _, (decision,) = one_cycle(database, grid)

    assert (decision["outcome"], decision["reason"], decision["candidates"]) == ("pending", "no_candidates", [])
    assert decision["rejected"] == {
        "ALPHA_MCORE": "lowmemory",
        "BETA": "lowmemory",
        "BETA/MCORE": "lowmemory",
        "BETA/SCORE": "cpucore",
        "GAMMA_MCORE": "lowmemory",
        "GAMMA_OFF": "status",
    }
    assert funnel_cuts(decision) == [("status", 1), ("cpucore", 1), ("lowmemory", 3)]
    assert decision["pending_until"] == "2026-08-01T13:00:00+00:00"
    with database.begin() as connection:
        row = connection.execute(
            sa.text("SELECT status, oldstatus, frozentime IS NOT NULL FROM doma_panda.jedi_tasks")
        ).one()
    assert tuple(row) == ("pending", "running", True)


def test_the_next_task_sees_jobs_placed_earlier_in_the_cycle(database: Database) -> None:
    """Two tasks may only use ALPHA_MCORE, where 20 jobs may wait.

    The first, of higher priority, gets a group of 25 jobs; the second then finds 25 waiting, more than the 20 allowed.
    A later why-not query still sees the 25.
    """
    first, second = task(site="ALPHA_MCORE", currentpriority=600), task(jeditaskid=TASK + 1, site="ALPHA_MCORE")
    pseudo = dataset(40, type="pseudo_input", datasetname="pseudo_dataset")
    files = input_files(40, 0, type="pseudo_input")
    grid = scenario(
        jedi_tasks=[first, second],
        jedi_datasets=[pseudo, {**pseudo, "jeditaskid": TASK + 1}],
        jedi_dataset_contents=[*files, *({**file, "jeditaskid": TASK + 1} for file in files)],
    )

    _, (first_decision, second_decision) = one_cycle(database, grid)

    assert first_decision["assigned"] == {"ALPHA_MCORE": 25}
    assert (second_decision["outcome"], second_decision["rejected"]) == ("pending", {"ALPHA_MCORE": "cap"})
    (answer,) = answers_about(database, TASK + 1, "ALPHA_MCORE")
    assert answer.code == "cap"
    assert answer.observation is not None
    assert (answer.observation.value, answer.observation.operator, answer.observation.limit) == (25, "<=", 20)
    assert answer.observation.key == "NQUEUELIMITSITE"


def test_an_independent_cycle_deducts_nothing(database: Database) -> None:
    """The same two tasks are decided on the unchanged grid."""
    first, second = task(site="ALPHA_MCORE", currentpriority=600), task(jeditaskid=TASK + 1, site="ALPHA_MCORE")
    pseudo = dataset(40, type="pseudo_input", datasetname="pseudo_dataset")
    files = input_files(40, 0, type="pseudo_input")
    grid = scenario(
        jedi_tasks=[first, second],
        jedi_datasets=[pseudo, {**pseudo, "jeditaskid": TASK + 1}],
        jedi_dataset_contents=[*files, *({**file, "jeditaskid": TASK + 1} for file in files)],
    )

    _, (first_decision, second_decision) = one_cycle(database, grid, independent=True)

    assert weights(first_decision) == weights(second_decision)
    with database.begin() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM broker.decisions")).scalar_one() == 0
