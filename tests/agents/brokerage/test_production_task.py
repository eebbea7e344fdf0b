"""The agent of the task brokerage: what it reports, refuses, skips, and stores for explanations."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from agents.brokerage.production_task import ProductionTaskOptions
from agents.service import fault_points
from broker.store.connection.database import Database
from broker.store.decisions import decision_rows as decisions
from broker.store.scenarios.load_dump import load
from tests.brokerages.small_grid import TASK, input_files
from tests.brokerages.task_grid import cycle_at, outputs, pseudo_input, rows, task_scenario, waiting

NAMES = (TASK, TASK + 1, TASK + 2)


def three_tasks() -> dict[str, list[dict[str, object]]]:
    """Tables of three tasks; the last has no input."""
    return {
        "jedi_tasks": [waiting(jeditaskid=name, gshare=f"share {name}") for name in NAMES],
        "jedi_datasets": [
            row for name in NAMES for row in (pseudo_input(jeditaskid=name, datasetid=name), *outputs(name, 10 * name))
        ],
        "jedi_dataset_contents": [
            {**row, "jeditaskid": name, "datasetid": name, "fileid": row["fileid"] + 10 * name}
            for name in NAMES[:2]
            for row in input_files(2, 0, type="pseudo_input", fsize=None)
        ],
    }


def test_the_report_counts_what_was_done(database: Database) -> None:
    load(database, task_scenario(**three_tasks()))
    record, objects = cycle_at(database)
    assert record.counts == {
        "tasks": 3,
        "candidates": 4,
        "brokered": 2,
        "tasks_assigned": 2,
        "outputs_placed": 4,
        "tasks_waiting": 1,
        "tasks_skipped": 0,
    }
    assert set(record.timings) >= {"load_s", "decide_s", "cut_s", "write_s"}
    assert [item["reason"] for item in objects] == ["", "", "no_ready_input"]
    assert record.snapshot is not None and record.tuning is not None


def test_without_waiting_tasks_nothing_is_decided(database: Database) -> None:
    load(database, task_scenario(jedi_tasks=[]))
    record, objects = cycle_at(database)
    assert (record.outcome, objects, record.counts) == ("done", [], {"tasks": 0, "candidates": 0, "brokered": 0})


def test_without_queues_nothing_is_decided(database: Database) -> None:
    load(database, task_scenario(schedconfig_json=[]))
    record, objects = cycle_at(database)
    assert (record.outcome, objects) == ("refused", [])
    assert rows(database, "SELECT status FROM doma_panda.jedi_tasks") == [("assigning",)]


def test_tasks_that_are_named_but_not_due_say_why(database: Database) -> None:
    load(database, task_scenario(**three_tasks()))
    cycle_at(database)
    _, objects = cycle_at(database, timedelta(minutes=5), task_ids=(*NAMES, 5))
    assert [(item["reason"], item["pending_until"]) for item in objects] == [
        ("task_status_ready", None),
        ("task_status_ready", None),
        ("tried_lately", "2026-08-01T12:30:00+00:00"),
        ("no_such_task", None),
    ]


def test_only_named_tasks_are_decided(database: Database) -> None:
    load(database, task_scenario(**three_tasks()))
    _, objects = cycle_at(database, task_ids=(NAMES[1],))
    assert [item["jeditaskid"] for item in objects] == [NAMES[1]]
    assert rows(database, "SELECT status FROM doma_panda.jedi_tasks ORDER BY jeditaskid") == [
        ("assigning",),
        ("ready",),
        ("assigning",),
    ]


@pytest.mark.parametrize("point", ["before_write", "after_write_before_commit"])
def test_a_cycle_that_ends_in_the_middle_leaves_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The next cycle then does all the work."""
    load(database, task_scenario(**three_tasks()))
    original = fault_points.reach

    def reach(name: str) -> None:
        if name == point:
            raise RuntimeError("on purpose")
        original(name)

    with monkeypatch.context() as patched:
        patched.setattr(fault_points, "reach", reach)
        assert cycle_at(database)[0].outcome == "failed"
    assert rows(database, "SELECT DISTINCT status FROM doma_panda.jedi_tasks") == [("assigning",)]
    assert rows(database, "SELECT count(*) FROM broker.decisions") == [(0,)]
    assert cycle_at(database)[0].counts["tasks_assigned"] == 2


def test_a_task_that_changes_meanwhile_is_skipped(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    load(database, task_scenario(**three_tasks()))

    def reach(name: str) -> None:
        if name == "before_write":
            with database.begin() as connection:
                statement = f"UPDATE doma_panda.jedi_tasks SET status = 'aborting' WHERE jeditaskid = {TASK}"
                connection.execute(sa.text(statement))

    monkeypatch.setattr(fault_points, "reach", reach)
    record, objects = cycle_at(database)
    assert (objects[0]["outcome"], objects[0]["reason"], objects[0]["assigned"]) == ("skipped", "task_changed", {})
    assert record.counts["tasks_skipped"] == 1 and record.counts["tasks_assigned"] == 1


def test_explanations_of_both_brokerages(database: Database) -> None:
    """The last decision is about the jobs; the decision about the nucleus can still be read."""
    load(database, task_scenario())
    cycle_at(database)
    cycle_at(database, timedelta(minutes=1), agent="production_job")
    with database.begin() as connection:
        last = decisions.latest(connection, TASK)
        nucleus = decisions.latest(connection, TASK, brokerage="production_task")
        each = decisions.latest_of_each(connection, TASK)
        before = decisions.latest(connection, TASK, nucleus[0].origin.decided_at)
    assert [row.record.decision.brokerage for row in last] == ["production_job"]
    assert [row.record.decision.brokerage for row in nucleus] == ["production_task"]
    assert [row.record.decision.brokerage for row in each] == ["production_task", "production_job"]
    assert [row.id for row in before] == [row.id for row in nucleus]


def test_options_have_bounds() -> None:
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        ProductionTaskOptions(tasks_of_a_batch=0)
