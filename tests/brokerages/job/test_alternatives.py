"""Work in its alternatives, and queues as their pilots report them, through whole cycles of the brokerage."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.decisions.answers.explain import answers_about
from broker.domain.work import WayToRun
from broker.formats.model.feature_summary import QueueSummary
from broker.formats.statements import feature_rows
from broker.store.connection.database import Database
from broker.store.reads import task_alternatives
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from tests.brokerages.small_grid import NOW, TASK, dataset, input_files, next_cycle, scenario, task


def pseudo_work(**columns: Any) -> Scenario:
    """One task of four jobs that need no input."""
    return scenario(
        jedi_tasks=[task(**columns)],
        jedi_datasets=[dataset(4, type="pseudo_input", datasetname="pseudo_dataset")],
        jedi_dataset_contents=input_files(4, 0, type="pseudo_input"),
    )


def brokered(database: Database, *ways: WayToRun, **columns: Any) -> dict[str, Any]:
    load(database, pseudo_work(**columns))
    with database.begin() as connection:
        task_alternatives.add(connection, TASK, ways)
    _, (decision,) = next_cycle(database)
    return decision


def queues_of(decision: dict[str, Any]) -> set[str]:
    return {one["name"] for one in decision["candidates"]}


def test_the_first_way_that_some_queue_satisfies(database: Database) -> None:
    decision = brokered(database, WayToRun(16, 16), WayToRun(8, 8), WayToRun(1, 1))
    assert decision["outcome"] == "brokered"
    assert queues_of(decision) == {"ALPHA_MCORE", "BETA/MCORE", "GAMMA_MCORE"}


def test_a_way_that_is_wanted_more_goes_first_though_others_would_do(database: Database) -> None:
    decision = brokered(database, WayToRun(1, 1), WayToRun(8, 8))
    assert queues_of(decision) == {"BETA/SCORE"}
    assert decision["rejected"]["ALPHA_MCORE"] in ("cpucore", "requested_cores")


def test_a_range_of_cores_takes_slots_of_one_and_of_several(database: Database) -> None:
    decision = brokered(database, WayToRun(1, None))
    assert queues_of(decision) == {"ALPHA_MCORE", "BETA/SCORE", "BETA/MCORE", "GAMMA_MCORE"}


def test_memory_is_an_alternative_too(database: Database) -> None:
    decision = brokered(database, WayToRun(8, 8, memory_mb=64_000), WayToRun(8, 8, memory_mb=8_000))
    assert decision["outcome"] == "brokered"
    with database.read_snapshot() as connection:
        memory = connection.scalar(sa.text("SELECT min(minramcount) FROM doma_panda.jobsdefined4"))
    assert memory == 8000  # as much as was asked for, although jobs get 0.9 of what their task asks for


def test_work_that_no_queue_takes_in_any_way_waits_and_says_so_of_the_first(database: Database) -> None:
    decision = brokered(database, WayToRun(16, 16), WayToRun(12, 12))
    assert (decision["outcome"], decision["reason"]) == ("pending", "no_candidates")
    (answer,) = answers_about(database, TASK, "ALPHA_MCORE")
    assert (answer.code, answer.observation.inputs["accepted_cores"]) == ("requested_cores", "16")  # type: ignore[union-attr]


def test_work_without_alternatives_is_left_as_it_is(database: Database) -> None:
    decision = brokered(database)
    assert queues_of(decision) == {"ALPHA_MCORE", "BETA/MCORE", "GAMMA_MCORE"}


def summary(queue: str, **values: Any) -> QueueSummary:
    plain: dict[str, Any] = dict.fromkeys(
        ("corepower", "maxtime_s", "maxrss_per_core_mb", "maxwdir_per_core_mb", "shutdown_s")
    )
    return QueueSummary(queue=queue, pilots=30, draining_pilots=0, **{**plain, **values})


def decided_with(
    database: Database, reported: QueueSummary, *keys: str, age: timedelta = timedelta(0)
) -> dict[str, Any]:
    load(database, pseudo_work())
    with database.begin() as connection:
        feature_rows.replace_summaries(connection, [reported], NOW - age)
        for key in keys:
            connection.execute(
                sa.text(
                    "INSERT INTO doma_panda.config (app, component, key, vo, value, type, descr)"
                    " VALUES ('jedi', 'jobbroker', :key, 'atlas', 'True', 'bool', '')"
                ),
                {"key": key},
            )
    _, (decision,) = next_cycle(database)
    return decision


@pytest.mark.parametrize(("left_s", "taken"), [(125, True), (124, False)])
def test_a_draining_queue_gets_no_job_longer_than_what_is_left(database: Database, left_s: int, taken: bool) -> None:
    decision = decided_with(database, summary("GAMMA_MCORE", shutdown_s=NOW.timestamp() + left_s))
    assert ("GAMMA_MCORE" in queues_of(decision)) is taken
    if not taken:
        assert decision["rejected"]["GAMMA_MCORE"] == "draining"
        (answer,) = answers_about(database, TASK, "GAMMA_MCORE")
        assert answer.observation is not None
        assert (answer.observation.value, answer.observation.limit) == (125.0, 124.0)


def test_what_is_reported_tightens_only_while_its_key_is_on(database: Database) -> None:
    decision = decided_with(database, summary("GAMMA_MCORE", maxtime_s=124.0))
    assert "GAMMA_MCORE" in queues_of(decision)


def test_a_queue_lost_to_a_report_says_so(database: Database) -> None:
    decision = decided_with(database, summary("GAMMA_MCORE", maxtime_s=124.0), "FEATURES_MAXTIME")
    assert decision["rejected"]["GAMMA_MCORE"] == "shortwalltime"
    (answer,) = answers_about(database, TASK, "GAMMA_MCORE")
    seen = answer.observation
    assert seen is not None
    assert (seen.value, seen.limit, seen.key) == (125.0, 124.0, "FEATURES_MAXTIME")
    assert (seen.inputs["maxtime_s_published"], seen.inputs["maxtime_s_reported"]) == (345600.0, 124.0)


def test_a_slower_core_makes_jobs_longer(database: Database) -> None:
    decision = decided_with(
        database, summary("GAMMA_MCORE", corepower=5.0, shutdown_s=NOW.timestamp() + 200), "FEATURES_COREPOWER"
    )
    assert decision["rejected"]["GAMMA_MCORE"] == "draining"
    (answer,) = answers_about(database, TASK, "GAMMA_MCORE")
    assert answer.observation is not None
    assert answer.observation.value == 250.0
    assert answer.observation.inputs["corepower_published"] == 10.0


@pytest.mark.parametrize(("age_h", "taken"), [(1, False), (2, True)])
def test_reports_that_nobody_adds_up_any_more_tighten_nothing(database: Database, age_h: int, taken: bool) -> None:
    shutdown = NOW.timestamp() + 60
    decision = decided_with(database, summary("GAMMA_MCORE", shutdown_s=shutdown), age=timedelta(hours=age_h))
    assert ("GAMMA_MCORE" in queues_of(decision)) is taken
