"""Work with alternatives, and queues with limits reported by pilots, through whole cycles of the brokerage."""

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
    """Make a task of four jobs without input."""
    return scenario(
        jedi_tasks=[task(**columns)],
        jedi_datasets=[dataset(4, type="pseudo_input", datasetname="pseudo_dataset")],
        jedi_dataset_contents=input_files(4, 0, type="pseudo_input"),
    )


def broker_task(database: Database, *ways: WayToRun, **columns: Any) -> dict[str, Any]:
    load(database, pseudo_work(**columns))
    with database.begin() as connection:
        task_alternatives.add(connection, TASK, ways)
    _, (decision,) = next_cycle(database)
    return decision


def queues_of(decision: dict[str, Any]) -> set[str]:
    return {candidate["name"] for candidate in decision["candidates"]}


def test_the_first_alternative_that_a_queue_satisfies_is_used(database: Database) -> None:
    decision = broker_task(database, WayToRun(16, 16), WayToRun(8, 8), WayToRun(1, 1))
    assert decision["outcome"] == "brokered"
    assert queues_of(decision) == {"ALPHA_MCORE", "BETA/MCORE", "GAMMA_MCORE"}


def test_an_earlier_alternative_wins_over_later_ones(database: Database) -> None:
    decision = broker_task(database, WayToRun(1, 1), WayToRun(8, 8))
    assert queues_of(decision) == {"BETA/SCORE"}
    assert decision["rejected"]["ALPHA_MCORE"] in ("cpucore", "requested_cores")


def test_a_range_of_cores_takes_slots_of_one_and_of_several(database: Database) -> None:
    decision = broker_task(database, WayToRun(1, None))
    assert queues_of(decision) == {"ALPHA_MCORE", "BETA/SCORE", "BETA/MCORE", "GAMMA_MCORE"}


def test_alternatives_can_differ_in_memory(database: Database) -> None:
    decision = broker_task(database, WayToRun(8, 8, memory_mb=64_000), WayToRun(8, 8, memory_mb=8_000))
    assert decision["outcome"] == "brokered"
    with database.read_snapshot() as connection:
        memory = connection.scalar(sa.text("SELECT min(minramcount) FROM doma_panda.jobsdefined4"))
    assert memory == 8000  # the full memory of the alternative, although jobs get 0.9 of the memory of their task


def test_work_that_fits_no_alternative_waits_with_the_reason_of_the_first(database: Database) -> None:
    decision = broker_task(database, WayToRun(16, 16), WayToRun(12, 12))
    assert (decision["outcome"], decision["reason"]) == ("pending", "no_candidates")
    (answer,) = answers_about(database, TASK, "ALPHA_MCORE")
    assert (answer.code, answer.observation.inputs["accepted_cores"]) == ("requested_cores", "16")  # type: ignore[union-attr]


def test_work_without_alternatives_is_unchanged(database: Database) -> None:
    decision = broker_task(database)
    assert queues_of(decision) == {"ALPHA_MCORE", "BETA/MCORE", "GAMMA_MCORE"}


def summary(queue: str, **values: Any) -> QueueSummary:
    empty: dict[str, Any] = dict.fromkeys(
        ("corepower", "maxtime_s", "maxrss_per_core_mb", "maxwdir_per_core_mb", "shutdown_s")
    )
    return QueueSummary(queue=queue, pilots=30, draining_pilots=0, **{**empty, **values})


def decide_with(database: Database, report: QueueSummary, *keys: str, age: timedelta = timedelta(0)) -> dict[str, Any]:
    load(database, pseudo_work())
    with database.begin() as connection:
        feature_rows.replace_summaries(connection, [report], NOW - age)
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


@pytest.mark.parametrize(("left_s", "accepted"), [(125, True), (124, False)])
def test_a_draining_queue_gets_no_job_longer_than_its_remaining_time(
    database: Database, left_s: int, accepted: bool
) -> None:
    decision = decide_with(database, summary("GAMMA_MCORE", shutdown_s=NOW.timestamp() + left_s))
    assert ("GAMMA_MCORE" in queues_of(decision)) is accepted
    if not accepted:
        assert decision["rejected"]["GAMMA_MCORE"] == "draining"
        (answer,) = answers_about(database, TASK, "GAMMA_MCORE")
        assert answer.observation is not None
        assert (answer.observation.value, answer.observation.limit) == (125.0, 124.0)


def test_a_report_tightens_a_limit_only_while_its_key_is_on(database: Database) -> None:
    decision = decide_with(database, summary("GAMMA_MCORE", maxtime_s=124.0))
    assert "GAMMA_MCORE" in queues_of(decision)


def test_a_rejection_by_a_report_shows_both_limits(database: Database) -> None:
    decision = decide_with(database, summary("GAMMA_MCORE", maxtime_s=124.0), "FEATURES_MAXTIME")
    assert decision["rejected"]["GAMMA_MCORE"] == "shortwalltime"
    (answer,) = answers_about(database, TASK, "GAMMA_MCORE")
    observation = answer.observation
    assert observation is not None
    assert (observation.value, observation.limit, observation.key) == (125.0, 124.0, "FEATURES_MAXTIME")
    assert (observation.inputs["maxtime_s_published"], observation.inputs["maxtime_s_reported"]) == (345600.0, 124.0)


def test_a_slower_core_makes_jobs_longer(database: Database) -> None:
    decision = decide_with(
        database, summary("GAMMA_MCORE", corepower=5.0, shutdown_s=NOW.timestamp() + 200), "FEATURES_COREPOWER"
    )
    assert decision["rejected"]["GAMMA_MCORE"] == "draining"
    (answer,) = answers_about(database, TASK, "GAMMA_MCORE")
    assert answer.observation is not None
    assert answer.observation.value == 250.0
    assert answer.observation.inputs["corepower_published"] == 10.0


@pytest.mark.parametrize(("age_h", "accepted"), [(1, False), (2, True)])
def test_outdated_reports_tighten_nothing(database: Database, age_h: int, accepted: bool) -> None:
    shutdown = NOW.timestamp() + 60
    decision = decide_with(database, summary("GAMMA_MCORE", shutdown_s=shutdown), age=timedelta(hours=age_h))
    assert ("GAMMA_MCORE" in queues_of(decision)) is accepted
