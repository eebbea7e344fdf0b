"""Retry rules on jobs that failed here: what they change, once, and what they leave alone."""

from __future__ import annotations

from typing import Any

import pytest

from agents.service import fault_points
from broker.retries.answers import retries
from broker.retries.answers.new_rule import NewRule
from broker.retries.statements.retry_rows import Editing
from broker.store.connection.database import Database
from broker.store.query_context import Asking
from tests.pilots.panda.pilot_grid import NOW, content, dataset, fill, job, record, row, rows, run_agent, task

STAMP = "2026-08-01T11:00:00"
BY = Editing(NOW, "tester", "because")
OF_MEMORY = {"source": "pilotErrorCode", "code": 1305, "active": True}
ACTIONS = {"no_retry": 1, "limit_retry": 2, "increase_memory": 3}


def panda_rule(number: int, action: str, **columns: Any) -> dict[str, Any]:
    plain = {"retryerror_id": number, "errorsource": "pilotErrorCode", "errorcode": 1305, "active": "Y"}
    return plain | {"retryaction": ACTIONS[action]} | columns


def failing(
    database: Database, *rules: dict[str, Any], job_columns: dict[str, Any] | None = None, **tables: Any
) -> None:
    """Job 5 of a task of two files fails with 1305, as its pilot said."""
    held = job(5, "holding", starttime="2026-08-01T10:30:00", endtime=STAMP, piloterrorcode=1305, minramcount=1800,
               minramunit="MB", maxrss=3_000_000, piloterrordiag="too much memory", **job_columns or {})  # fmt: skip
    report = {"pandaid": 5, "attemptnr": 0, "jobstatus": "failed", "timestamp": STAMP, "data": ""}
    names = [{"retryaction_id": number, "retry_action": name, "active": "Y"} for name, number in ACTIONS.items()]
    given: dict[str, Any] = {
        "jedi_tasks": [task(ramcount=2000, ramunit="MBPerCore", resource_type="SCORE")],
        "jedi_datasets": [dataset()],
        "jedi_dataset_contents": [content(1, 5, ramcount=2000), content(4, ramcount=2000)],
        "filestable4": [record(5, 1)],
    }
    given |= tables
    fill(database, [held], job_output_report=[report], retryactions=names, retryerrors=list(rules), **given)
    run_agent(database, "completion")


def retry(database: Database, **how: Any) -> tuple[Any, list[dict[str, Any]]]:
    found, emitted = run_agent(database, "retries", **how)
    assert found.outcome == "done", found.error
    return found, emitted


def file(database: Database, fileid: int = 1) -> dict[str, Any]:
    return row(database, f"SELECT * FROM doma_panda.jedi_dataset_contents WHERE fileid = {fileid}")


def add(database: Database, **columns: Any) -> str:
    return retries.add(database, NewRule(**OF_MEMORY | columns), BY).rule


def test_a_final_error_ends_the_tries_and_is_counted(shared: Database) -> None:
    failing(shared, panda_rule(1, "no_retry"))
    assert rows(shared, "SELECT pandaid FROM broker.failed_jobs") == [(5,)]
    found, emitted = retry(shared)
    assert (found.counts["looked_at"], found.counts["acted"], found.counts["files_lost"]) == (1, 1, 1)
    assert [(one["pandaid"], one["action"], one["rows"]) for one in emitted] == [(5, "no_retry", 1)]
    ended = file(shared)
    assert (ended["status"], ended["attemptnr"], ended["maxattempt"]) == ("ready", 1, 1)
    counted = row(shared, "SELECT * FROM doma_panda.jedi_datasets")
    assert (counted["nfilesused"], counted["nfilesfailed"]) == (1, 1)
    assert file(shared, 4)["maxattempt"] == 3
    kept = row(shared, "SELECT * FROM broker.retry_actions")
    assert (kept["rule"], kept["active"], kept["target"], kept["rows_changed"]) == ("panda:1", True, "files", 1)
    assert kept["evidence"]["diag"] == "too much memory"
    assert rows(shared, "SELECT FROM broker.failed_jobs") == []
    found, emitted = retry(shared)
    assert (found.counts["looked_at"], emitted) == (0, [])


@pytest.mark.parametrize(("most", "tries", "failed"), [(1, 1, 1), (2, 2, 0), (3, 3, 0), (9, 3, 0)])
def test_a_limit_leaves_so_many_tries(shared: Database, most: int, tries: int, failed: int) -> None:
    failing(shared, panda_rule(1, "limit_retry", parameters=f"maxAttempt={most}"))
    retry(shared)
    assert file(shared)["maxattempt"] == tries
    assert row(shared, "SELECT * FROM doma_panda.jedi_datasets")["nfilesfailed"] == failed


def test_more_memory_is_what_the_next_attempt_asks_for(shared: Database) -> None:
    failing(shared, panda_rule(1, "increase_memory"))
    retry(shared)
    assert (file(shared)["ramcount"], file(shared, 4)["ramcount"], file(shared)["maxattempt"]) == (3000, 2000, 3)
    assert row(shared, "SELECT ramcount FROM doma_panda.jedi_tasks")["ramcount"] == 2000


def test_files_that_ask_for_no_memory_of_their_own_get_more(shared: Database) -> None:
    failing(shared, panda_rule(1, "increase_memory"), jedi_dataset_contents=[content(1, 5), content(4)])
    retry(shared)
    assert (file(shared)["ramcount"], file(shared, 4)["ramcount"]) == (3000, None)


def test_an_own_rule_goes_by_the_memory_that_was_measured(shared: Database) -> None:
    failing(shared)
    assert add(shared, action="increase_memory").startswith("broker:")
    retry(shared)
    assert file(shared)["ramcount"] == 3223  # 1.1 x 3,000,000 kB
    kept = row(shared, "SELECT * FROM broker.retry_actions")
    assert (kept["after"], kept["evidence"]["measured_mb"]) == ({"ramcount": 3223}, 3_000_000 / 1024)


def test_the_task_gets_more_where_many_files_have_more(shared: Database) -> None:
    contents = [content(1, 5, ramcount=2000), content(4, ramcount=3000)]
    failing(shared, panda_rule(1, "increase_memory"), jedi_dataset_contents=contents)
    retry(shared)
    found = row(shared, "SELECT ramcount, resource_type FROM doma_panda.jedi_tasks")
    assert (found["ramcount"], found["resource_type"]) == (3000, None)


@pytest.mark.parametrize(
    "columns", [{"active": "N"}, {"expiration_date": "2026-08-01T11:59:00"}, {"errordiag": "nothing like it"},
                {"workqueue_id": 9}]
)  # fmt: skip
def test_passive_expired_and_other_rules_change_nothing(shared: Database, columns: dict[str, Any]) -> None:
    failing(shared, panda_rule(1, "no_retry", **columns))
    retry(shared)
    assert file(shared)["maxattempt"] == 3
    kept = rows(shared, "SELECT rule, active, rows_changed FROM broker.retry_actions")
    assert kept == ([("panda:1", False, 0)] if "active" in columns else [])
    assert rows(shared, "SELECT FROM broker.failed_jobs") == []


@pytest.mark.parametrize(("key", "value", "kept"), [("RETRY_RULES", "False", 0), ("RETRY_RULES_PASSIVE", "True", 1)])
def test_keys_switch_rules_off_or_make_them_passive(shared: Database, key: str, value: str, kept: int) -> None:
    setting = {"app": "jedi", "component": "retry_module", "key": key, "value": value, "type": "bool", "vo": "atlas"}
    failing(shared, panda_rule(1, "no_retry"), config=[setting])
    retry(shared)
    assert file(shared)["maxattempt"] == 3
    assert len(rows(shared, "SELECT FROM broker.retry_actions WHERE NOT active")) == kept


def test_the_attempt_that_runs_by_now_is_the_last(shared: Database) -> None:
    failing(shared, panda_rule(1, "no_retry"))
    with shared.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE doma_panda.jedi_dataset_contents SET status = 'running', pandaid = 6 WHERE fileid = 1"
        )
    retry(shared)
    assert (file(shared)["maxattempt"], row(shared, "SELECT * FROM doma_panda.jedi_datasets")["nfilesfailed"]) == (1, 0)


def test_a_failure_of_the_system_does_not_count(shared: Database) -> None:
    classes = [{"id": 1000001, "error_source": "pilotErrorCode", "error_code": 1305, "error_diag": "too much",
                "error_class": "system", "active": "Y"}]  # fmt: skip
    contents = [content(1, 5, maxfailure=2), content(4, maxfailure=2)]
    failing(shared, error_classification=classes, jedi_dataset_contents=contents)
    retry(shared)
    assert (file(shared)["maxfailure"], file(shared, 4)["maxfailure"]) == (3, 2)
    assert row(shared, "SELECT rule FROM broker.retry_actions")["rule"] == "class:1000001"


def test_a_task_that_is_being_written_to_waits(shared: Database) -> None:
    failing(shared, panda_rule(1, "no_retry"))
    with shared.begin() as connection:
        connection.exec_driver_sql("SELECT FROM doma_panda.jedi_tasks WHERE jeditaskid = 1 FOR UPDATE")
        found, _ = retry(shared)
        assert (found.counts["left"], found.counts["looked_at"]) == (1, 0)
    retry(shared)
    assert file(shared)["maxattempt"] == 1


def test_the_brake_leaves_files_for_the_next_cycle(shared: Database) -> None:
    numbers = range(101, 231)
    held = [job(n, "holding", starttime=STAMP, endtime=STAMP, piloterrorcode=1305) for n in numbers]
    fill(
        shared, held,
        jedi_datasets=[dataset(nfiles=130, nfilestobeused=130, nfilesused=130)],
        jedi_dataset_contents=[content(n, n) for n in numbers], filestable4=[record(n, n) for n in numbers],
        job_output_report=[
            {"pandaid": n, "attemptnr": 0, "jobstatus": "failed", "timestamp": STAMP, "data": ""} for n in numbers
        ],
        retryactions=[{"retryaction_id": 1, "retry_action": "no_retry", "active": "Y"}],
        retryerrors=[panda_rule(1, "no_retry")],
    )  # fmt: skip
    run_agent(shared, "completion")
    found, _ = retry(shared, options={"jobs_of_a_batch": 40})
    assert (found.counts["files_lost"], found.counts["held_back"], found.counts["left"]) == (100, 30, 30)
    found, _ = retry(shared)
    assert (found.counts["files_lost"], found.counts["left"]) == (30, 0)


def test_a_dry_run_and_a_fault_leave_everything(shared: Database) -> None:
    failing(shared, panda_rule(1, "no_retry"))
    _, emitted = retry(shared, dry=True)
    assert [one["after"] for one in emitted] == [{"maxattempt": None}]
    fault_points.arm({"BROKER_FAULT": "after_write_before_commit:raise"})
    failed, _ = run_agent(shared, "retries")
    fault_points.disarm()
    assert failed.outcome != "done"
    assert (file(shared)["maxattempt"], rows(shared, "SELECT FROM broker.retry_actions")) == (3, [])
    retry(shared)
    assert file(shared)["maxattempt"] == 1


def test_a_rule_that_cannot_act_is_told(shared: Database) -> None:
    failing(shared, panda_rule(1, "no_retry", errordiag="("))
    found, _ = retry(shared)
    assert any("panda:1" in note and "regular expression" in note for note in found.notes)


def ask(database: Database, name: str) -> retries.RuleTest:
    with database.read_snapshot() as connection:
        asking = Asking(connection, database.names, NOW)
        return retries.test_rule(asking, retries.rule_named(asking, name))


def test_what_a_rule_would_have_done_shows_what_it_saves_and_what_it_costs(shared: Database) -> None:
    ended = {"starttime": "2026-08-01T10:00:00", "endtime": "2026-08-01T11:00:00", "modificationtime": STAMP}
    failed = {**ended, "piloterrorcode": 1305, "piloterrordiag": "too much memory"}
    fill(
        shared,
        [job(5, "failed", **failed), job(6, "failed", attemptnr=1, corecount=8, **ended),
         job(7, "finished", attemptnr=2, **ended),
         job(8, "failed", **failed | {"modificationtime": "2026-07-20T11:00:00"}),
         job(9, "failed", **failed | {"piloterrordiag": "something else"})],
        jedi_datasets=[dataset()], jedi_dataset_contents=[content(1)],
        filestable4=[record(5, 1), record(6, 1, attemptnr=1), record(7, 1, attemptnr=2)],
    )  # fmt: skip
    name = add(shared, action="no_retry", diag=".*memory")
    found = ask(shared, name)
    assert (found.looked_at, found.jobs, found.tasks, found.by_queue) == (2, 1, 1, {"Q": 1})
    assert (found.later_attempts, found.later_core_h) == (2, 8.0)
    assert (found.later_finished, found.later_finished_core_h) == (1, 1.0)
    two = ask(shared, add(shared, action="limit_retry", parameters="maxAttempt=2", diag=".*memory"))
    assert (two.later_attempts, two.later_finished) == (1, 1)
    more = ask(shared, add(shared, action="increase_memory"))
    assert (more.jobs, more.later_attempts) == (2, 0)
    with shared.read_snapshot() as connection:
        assert len(retries.rule_list(Asking(connection, shared.names, NOW)).rules) == 3
