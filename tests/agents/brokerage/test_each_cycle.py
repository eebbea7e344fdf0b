"""Waiting work is decided again in each cycle, or when its timer ends, as the profile says."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy as sa

from broker.brokerages.profile import read_profile
from broker.decisions.answers.sentences import waiting_sentence
from broker.domain.decisions import first_redecided, redecided
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from tests.brokerages import task_grid
from tests.brokerages.small_grid import NOW, TASK, dataset, input_files, scenario, task
from tests.brokerages.task_grid import cycle_at, rows, task_scenario, waiting

MINUTE = timedelta(minutes=1)
STATE = "SELECT status, oldstatus, errordialog, modificationtime, statechangetime FROM doma_panda.jedi_tasks"
LOG = "SELECT status, reason FROM doma_panda.tasks_statuslog ORDER BY modificationtime, status"


def load_large_chunk(database: Database) -> None:
    """Load a task whose jobs fit nowhere."""
    loaded = scenario(
        jedi_tasks=[task(ramcount=8000)],
        jedi_datasets=[dataset(5, type="pseudo_input", datasetname="pseudo_dataset")],
        jedi_dataset_contents=input_files(5, 0, type="pseudo_input"),
    )
    load(database, loaded)


def change(database: Database, statement: str) -> None:
    with database.begin() as connection:
        assert connection.execute(sa.text(statement)).rowcount > 0


def decisions_after(database: Database, minutes: int, profile: str, agent: str = "production_job") -> list[Any]:
    _, decisions = cycle_at(database, minutes * MINUTE, agent=agent, profile=profile)
    return [(decision["outcome"], decision["reason"], decision["pending_until"]) for decision in decisions]


def test_a_waiting_chunk_is_decided_again_and_a_cure_shows_in_the_next_cycle(database: Database) -> None:
    load_large_chunk(database)
    assert decisions_after(database, 0, "demo") == [("pending", "no_candidates", None)]
    before, log = rows(database, STATE), rows(database, LOG)
    assert before[0][:2] == ("pending", "running")
    assert (
        decisions_after(database, 1, "demo")
        == decisions_after(database, 2, "demo")
        == [("pending", "no_candidates", None)]
    )
    # the task was not written again, and all cycles share one decision
    assert (rows(database, STATE), rows(database, LOG)) == (before, log)
    assert rows(database, "SELECT count(*) FROM broker.decisions") == [(1,)]
    assert rows(database, "SELECT seen_again, pending_until FROM broker.chunk_states") == [(2, None)]
    change(database, "UPDATE doma_panda.jedi_tasks SET ramcount = 1000")
    assert decisions_after(database, 3, "demo") == [("brokered", "", None)]
    assert rows(database, STATE)[0][:3] == ("running", None, None)
    assert rows(database, LOG) == [*log, ("running", "jobs made after waiting")]


def test_with_timers_a_waiting_chunk_is_left_until_its_time(database: Database) -> None:
    load_large_chunk(database)
    until = (NOW + timedelta(hours=1)).isoformat()
    assert decisions_after(database, 0, "seed") == [("pending", "no_candidates", until)]
    change(database, "UPDATE doma_panda.jedi_tasks SET ramcount = 1000")
    assert decisions_after(database, 59, "seed") == []
    # the timers of one profile do not bind another
    assert decisions_after(database, 59, "demo") == [("brokered", "", None)]


def test_a_task_that_waits_for_another_reason_says_so(database: Database) -> None:
    load_large_chunk(database)
    decisions_after(database, 0, "demo")
    change(database, "UPDATE doma_panda.jedi_tasks SET errordialog = 'another', frozentime = NULL")
    decisions_after(database, 1, "demo")
    assert rows(database, "SELECT errordialog, frozentime IS NULL FROM doma_panda.jedi_tasks") == [
        ("no_candidates", False)
    ]


def test_a_task_on_hold_for_another_reason_is_not_decided(database: Database) -> None:
    load_large_chunk(database)
    change(database, "UPDATE doma_panda.jedi_tasks SET status = 'pending', oldstatus = 'registered'")
    assert decisions_after(database, 0, "demo") == []


def test_beside_jedi_the_timers_apply(database: Database) -> None:
    load_large_chunk(database)
    change(database, "UPDATE broker.installation SET mode = 'beside'")
    assert [until is None for _, _, until in decisions_after(database, 0, "demo")] == [False]
    change(database, "UPDATE doma_panda.jedi_tasks SET status = 'pending', oldstatus = 'running'")
    assert decisions_after(database, 1, "demo") == []


@pytest.mark.parametrize(("profile", "is_tried_again"), [("demo", True), ("seed", False)])
def test_a_task_without_a_nucleus_is_tried_again(database: Database, profile: str, is_tried_again: bool) -> None:
    load(database, task_scenario(jedi_tasks=[waiting()], jedi_dataset_contents=[]))
    until = None if is_tried_again else (task_grid.NOW + timedelta(minutes=30)).isoformat()
    decisions = [("pending", "no_ready_input", until)]
    assert decisions_after(database, 0, profile, "production_task") == decisions
    before = rows(database, STATE)
    assert decisions_after(database, 1, profile, "production_task") == (decisions if is_tried_again else [])
    assert rows(database, STATE) == before
    change(database, "UPDATE doma_panda.jedi_tasks SET errordialog = 'another'")
    decisions_after(database, 2, profile, "production_task")
    assert rows(database, "SELECT errordialog FROM doma_panda.jedi_tasks") == [
        ("no_ready_input" if is_tried_again else "another",)
    ]


def test_a_task_requested_by_name_is_not_reported_as_tried_lately(database: Database) -> None:
    load(database, task_scenario(jedi_tasks=[waiting(jeditaskid=TASK)], jedi_dataset_contents=[]))
    cycle_at(database, profile="demo")
    _, decisions = cycle_at(database, MINUTE, profile="demo", task_ids=(TASK,))
    assert [decision["reason"] for decision in decisions] == ["no_ready_input"]


@pytest.mark.parametrize(
    ("outcome", "until", "expected", "sentence"),
    [
        ("pending", None, "each_cycle", "Decided again each cycle."),
        ("throttled", None, "each_cycle", "Decided again each cycle."),
        ("pending", NOW, "timers", "Next try 12:00 UTC."),
        ("brokered", None, None, ""),
        ("skipped", None, None, ""),
    ],
)
def test_a_decision_says_when_it_is_made_again(outcome: str, until: Any, expected: str | None, sentence: str) -> None:
    mode = redecided(outcome, until)
    assert mode == expected == first_redecided([("brokered", None), (outcome, until)])
    assert waiting_sentence(cast(Any, SimpleNamespace(pending_until=until, redecide=mode))).startswith(sentence)


def test_a_custom_profile_decides_each_cycle_unless_it_says_otherwise() -> None:
    text = "profile: ours\nextends: seed\n"
    base = "profile: seed\nredecide: timers\nbrokerages: [{brokerage: production_job}]\n"
    assert read_profile(base).redecide == "timers"
    assert read_profile(text, lambda name: base).redecide == "each_cycle"
    assert read_profile(text + "redecide: timers\n", lambda name: base).redecide == "timers"
