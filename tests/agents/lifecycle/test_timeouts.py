"""The agent of timeouts: which jobs it ends, which it leaves alone, and what happens when others change jobs too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from agents.service import fault_points, registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ConfigurationError, ProcessSettings
from agents.service.cycle import run_cycle
from broker.lifecycle.statements.actions import ActionContext, act
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from tests.lifecycle.lifecycle_grid import HOUR, NOW, Rows, ago, due, run_once, store
from tests.store.small_work import all_rows

SENT = {"jobstatus": "sent", "computingsite": "ON", "modificationtime": ago(HOUR)}
KEYS = ["pandaid", "queue", "status", "rule", "value_s", "limit_s", "action", "code"]


def sent_jobs(count: int) -> Rows:
    return [{"pandaid": number, **SENT} for number in range(1, count + 1)]


def remaining_jobs(database: Database) -> list[int]:
    return [row["pandaid"] for row in all_rows(database, "SELECT pandaid FROM doma_panda.jobsactive4 ORDER BY pandaid")]


def test_a_cycle_ends_due_jobs_in_batches_and_emits_them(shared_database: Database) -> None:
    store(
        shared_database,
        [*sent_jobs(5), {"pandaid": 6, "jobstatus": "sent", "computingsite": "PAUSED", "modificationtime": ago(HOUR)}],
    )
    record, objects = run_once(shared_database, jobs_of_a_batch=2)
    assert (record.outcome, record.error, record.notes) == ("done", None, ())
    assert record.counts == {
        "due": 5, "failed": 5, "reassigned": 0, "killed": 0, "skipped": 0, "files": 0, "files_lost": 0
    }  # fmt: skip
    assert remaining_jobs(shared_database) == [6]
    assert [item["pandaid"] for item in objects] == [1, 2, 3, 4, 5]
    assert objects[0] == dict(zip(KEYS, (1, "ON", "sent", "sent", 3600.0, 1800.0, "failed", 102), strict=True))
    actions = all_rows(shared_database, "SELECT agent, agent_run FROM broker.job_actions")
    assert {row["agent"] for row in actions} == {"timeouts"}
    assert all(row["agent_run"] for row in actions) and len(actions) == 5


def test_a_second_cycle_does_nothing(shared_database: Database) -> None:
    running = {"pandaid": 9, "jobstatus": "running", "computingsite": "ON", "modificationtime": ago(1)}
    store(shared_database, [*sent_jobs(2), {**running, "starttime": ago(22 * 24 * HOUR)}])
    assert run_once(shared_database)[0].counts["killed"] == 1
    record, objects = run_once(shared_database)
    assert (record.outcome, set(record.counts.values()), objects, remaining_jobs(shared_database)) == (
        "done",
        {0},
        [],
        [9],
    )


def test_a_dry_run_emits_the_same_and_writes_nothing(shared_database: Database) -> None:
    store(shared_database, sent_jobs(3))
    record, objects = run_once(shared_database, dry=True)
    assert (record.outcome, record.counts["due"], remaining_jobs(shared_database)) == ("done", 3, [1, 2, 3])
    assert objects == run_once(shared_database)[1]


def test_one_cycle_ends_no_more_than_it_may(shared_database: Database) -> None:
    store(shared_database, sent_jobs(3))
    record, _ = run_once(shared_database, jobs_of_a_cycle=2)
    assert record.counts["failed"] == 2 and "there may be more" in record.notes[0]
    assert remaining_jobs(shared_database) == [3]


def test_a_cycle_for_one_task_ends_jobs_of_that_task(shared_database: Database) -> None:
    store(shared_database, [{**item, "jeditaskid": item["pandaid"] % 2} for item in sent_jobs(4)])
    agent, objects = registry.make("timeouts", {}, ProcessSettings()), []
    request = CycleRequest(task_ids=(1,), dry_run=True, emit=objects.append)
    run_cycle(agent, CycleContext(shared_database, NOW, 1, 60.0, request))
    assert [item["pandaid"] for item in objects] == [1, 3]


def test_changes_between_the_selection_and_the_action_win(shared_database: Database) -> None:
    store(shared_database, sent_jobs(4))
    first_due = list(due(shared_database).values())[:2]

    def meanwhile() -> None:
        with shared_database.begin() as connection:
            catalogue = TableCatalogue.read(connection, shared_database.names)
            assert act(connection, first_due, ActionContext(catalogue, "another", None, NOW, True)).acted == (1, 2)
            statement = "UPDATE doma_panda.jobsactive4 SET modificationtime = '2026-08-01 11:59' WHERE pandaid = 3"
            connection.execute(sa.text(statement))

    fault_points.arm_action("before_write", meanwhile)
    record, objects = run_once(shared_database)
    assert (record.counts["failed"], record.counts["skipped"]) == (1, 3)
    assert [item["pandaid"] for item in objects] == [4]
    assert remaining_jobs(shared_database) == [3]
    actions = all_rows(shared_database, "SELECT pandaid, agent FROM broker.job_actions ORDER BY pandaid")
    assert [(row["pandaid"], row["agent"]) for row in actions] == [(1, "another"), (2, "another"), (4, "timeouts")]


def test_a_cycle_that_lost_its_lease_writes_nothing(shared_database: Database) -> None:
    store(shared_database, sent_jobs(2))

    def take_over() -> None:
        with shared_database.begin() as connection:
            connection.execute(sa.text("DELETE FROM broker.leases"))

    fault_points.arm_action("before_write", take_over)
    assert run_once(shared_database)[0].outcome == "lost_lease"
    assert remaining_jobs(shared_database) == [1, 2]


@pytest.mark.parametrize(
    ("queues", "why"),
    [([], "missing"), ([{"panda_queue": "ON", "data": {"status": "online"}, "last_update": ago(25 * HOUR)}], "stale")],
)
def test_nothing_is_touched_while_the_paused_queues_are_unknown(
    shared_database: Database, queues: Rows, why: str
) -> None:
    store(shared_database, sent_jobs(1), schedconfig_json=queues)
    record, objects = run_once(shared_database)
    assert record.outcome == "refused" and f"queues is {why}" in (record.error or "")
    assert (objects, remaining_jobs(shared_database)) == ([], [1])


def test_queues_that_vanish_all_at_once_are_remembered(shared_database: Database) -> None:
    names = ("A", "B", "C", "D")
    rows = [{"panda_queue": name, "data": {"nickname": name, "status": "paused"}} for name in names]
    store(shared_database, [{"pandaid": 1, **SENT, "computingsite": "A"}], schedconfig_json=rows)
    agent = registry.make("timeouts", {}, ProcessSettings())
    first = run_cycle(agent, CycleContext(shared_database, NOW, 1, 60.0, CycleRequest(dry_run=True)))
    with shared_database.begin() as connection:
        connection.execute(sa.text("DELETE FROM doma_panda.schedconfig_json WHERE panda_queue <> 'D'"))
    second = run_cycle(agent, CycleContext(shared_database, NOW, 1, 60.0, CycleRequest(dry_run=True)))
    assert (first.counts["due"], second.counts["due"]) == (0, 0)
    assert "source queues is shrunk" in second.notes[0]


def test_jobs_from_the_future_of_the_clock_are_left_alone(shared_database: Database) -> None:
    store(shared_database, sent_jobs(1))
    assert run_once(shared_database, now=NOW - timedelta(days=3650))[0].counts["due"] == 0


def test_a_bad_option_is_refused() -> None:
    make: Callable[..., Any] = registry.make
    with pytest.raises(ConfigurationError, match="jobs_of_a_batch"):
        make("timeouts", {"jobs_of_a_batch": 0}, ProcessSettings())
