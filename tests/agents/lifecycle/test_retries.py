"""Retry rules on jobs that failed here: what they change, only once, and what they leave alone."""

from __future__ import annotations

from typing import Any

import pytest

from agents.service import fault_points
from broker.retries.answers import retries
from broker.retries.answers.new_rule import NewRule
from broker.retries.statements.retry_rows import Editing
from broker.store.connection.database import Database
from broker.store.query_context import QueryContext
from tests.pilots.panda.pilot_grid import NOW, content, dataset, fill, job, record, row, rows, run_agent, task

STAMP = "2026-08-01T11:00:00"
BY = Editing(NOW, "tester", "because")
OF_MEMORY = {"source": "pilotErrorCode", "code": 1305, "active": True}
ACTIONS = {"no_retry": 1, "limit_retry": 2, "increase_memory": 3}


def panda_rule(number: int, action: str, **columns: Any) -> dict[str, Any]:
    plain = {"retryerror_id": number, "errorsource": "pilotErrorCode", "errorcode": 1305, "active": "Y"}
    return plain | {"retryaction": ACTIONS[action]} | columns


def fail_job(
    database: Database, *rules: dict[str, Any], job_columns: dict[str, Any] | None = None, **tables: Any
) -> None:
    """Job 5 of a task of two files fails with the pilot error 1305."""
    held_job = job(5, "holding", starttime="2026-08-01T10:30:00", endtime=STAMP, piloterrorcode=1305, minramcount=1800,
                   minramunit="MB", maxrss=3_000_000, piloterrordiag="too much memory",
                   **job_columns or {})  # fmt: skip
    report = {"pandaid": 5, "attemptnr": 0, "jobstatus": "failed", "timestamp": STAMP, "data": ""}
    names = [{"retryaction_id": number, "retry_action": name, "active": "Y"} for name, number in ACTIONS.items()]
    defaults: dict[str, Any] = {
        "jedi_tasks": [task(ramcount=2000, ramunit="MBPerCore", resource_type="SCORE")],
        "jedi_datasets": [dataset()],
        "jedi_dataset_contents": [content(1, 5, ramcount=2000), content(4, ramcount=2000)],
        "filestable4": [record(5, 1)],
    }
    defaults |= tables
    fill(database, [held_job], job_output_report=[report], retryactions=names, retryerrors=list(rules), **defaults)
    run_agent(database, "completion")


def retry(database: Database, **arguments: Any) -> tuple[Any, list[dict[str, Any]]]:
    run_record, objects = run_agent(database, "retries", **arguments)
    assert run_record.outcome == "done", run_record.error
    return run_record, objects


def file(database: Database, fileid: int = 1) -> dict[str, Any]:
    return row(database, f"SELECT * FROM doma_panda.jedi_dataset_contents WHERE fileid = {fileid}")


def add(database: Database, **columns: Any) -> str:
    return retries.add(database, NewRule(**OF_MEMORY | columns), BY).rule


def test_a_final_error_ends_the_tries_and_is_counted(shared_database: Database) -> None:
    fail_job(shared_database, panda_rule(1, "no_retry"))
    assert rows(shared_database, "SELECT pandaid FROM broker.failed_jobs") == [(5,)]
    run_record, objects = retry(shared_database)
    assert (run_record.counts["looked_at"], run_record.counts["acted"], run_record.counts["files_lost"]) == (1, 1, 1)
    assert [(item["pandaid"], item["action"], item["rows"]) for item in objects] == [(5, "no_retry", 1)]
    input_file = file(shared_database)
    assert (input_file["status"], input_file["attemptnr"], input_file["maxattempt"]) == ("ready", 1, 1)
    dataset_row = row(shared_database, "SELECT * FROM doma_panda.jedi_datasets")
    assert (dataset_row["nfilesused"], dataset_row["nfilesfailed"]) == (1, 1)
    assert file(shared_database, 4)["maxattempt"] == 3
    action = row(shared_database, "SELECT * FROM broker.retry_actions")
    assert (action["rule"], action["active"], action["target"], action["rows_changed"]) == ("panda:1", True, "files", 1)
    assert action["evidence"]["diag"] == "too much memory"
    assert rows(shared_database, "SELECT FROM broker.failed_jobs") == []
    run_record, objects = retry(shared_database)
    assert (run_record.counts["looked_at"], objects) == (0, [])


@pytest.mark.parametrize(("most", "tries", "failed"), [(1, 1, 1), (2, 2, 0), (3, 3, 0), (9, 3, 0)])
def test_a_limit_leaves_that_many_tries(shared_database: Database, most: int, tries: int, failed: int) -> None:
    fail_job(shared_database, panda_rule(1, "limit_retry", parameters=f"maxAttempt={most}"))
    retry(shared_database)
    assert file(shared_database)["maxattempt"] == tries
    assert row(shared_database, "SELECT * FROM doma_panda.jedi_datasets")["nfilesfailed"] == failed


def test_the_next_attempt_asks_for_more_memory(shared_database: Database) -> None:
    fail_job(shared_database, panda_rule(1, "increase_memory"))
    retry(shared_database)
    assert (
        file(shared_database)["ramcount"],
        file(shared_database, 4)["ramcount"],
        file(shared_database)["maxattempt"],
    ) == (3000, 2000, 3)
    assert row(shared_database, "SELECT ramcount FROM doma_panda.jedi_tasks")["ramcount"] == 2000


def test_files_without_a_memory_request_get_more(shared_database: Database) -> None:
    fail_job(shared_database, panda_rule(1, "increase_memory"), jedi_dataset_contents=[content(1, 5), content(4)])
    retry(shared_database)
    assert (file(shared_database)["ramcount"], file(shared_database, 4)["ramcount"]) == (3000, None)


def test_a_rule_of_the_broker_uses_the_measured_memory(shared_database: Database) -> None:
    fail_job(shared_database)
    assert add(shared_database, action="increase_memory").startswith("broker:")
    retry(shared_database)
    assert file(shared_database)["ramcount"] == 3223  # 1.1 x 3,000,000 kB
    action = row(shared_database, "SELECT * FROM broker.retry_actions")
    assert (action["after"], action["evidence"]["measured_mb"]) == ({"ramcount": 3223}, 3_000_000 / 1024)


def test_the_task_gets_more_memory_when_many_files_have_more(shared_database: Database) -> None:
    contents = [content(1, 5, ramcount=2000), content(4, ramcount=3000)]
    fail_job(shared_database, panda_rule(1, "increase_memory"), jedi_dataset_contents=contents)
    retry(shared_database)
    task_row = row(shared_database, "SELECT ramcount, resource_type FROM doma_panda.jedi_tasks")
    assert (task_row["ramcount"], task_row["resource_type"]) == (3000, None)


@pytest.mark.parametrize(
    "columns", [{"active": "N"}, {"expiration_date": "2026-08-01T11:59:00"}, {"errordiag": "nothing like it"},
                {"workqueue_id": 9}]
)  # fmt: skip
def test_passive_expired_and_other_rules_change_nothing(shared_database: Database, columns: dict[str, Any]) -> None:
    fail_job(shared_database, panda_rule(1, "no_retry", **columns))
    retry(shared_database)
    assert file(shared_database)["maxattempt"] == 3
    actions = rows(shared_database, "SELECT rule, active, rows_changed FROM broker.retry_actions")
    assert actions == ([("panda:1", False, 0)] if "active" in columns else [])
    assert rows(shared_database, "SELECT FROM broker.failed_jobs") == []


@pytest.mark.parametrize(
    ("key", "value", "passive_actions"), [("RETRY_RULES", "False", 0), ("RETRY_RULES_PASSIVE", "True", 1)]
)
def test_keys_switch_rules_off_or_make_them_passive(
    shared_database: Database, key: str, value: str, passive_actions: int
) -> None:
    setting = {"app": "jedi", "component": "retry_module", "key": key, "value": value, "type": "bool", "vo": "atlas"}
    fail_job(shared_database, panda_rule(1, "no_retry"), config=[setting])
    retry(shared_database)
    assert file(shared_database)["maxattempt"] == 3
    assert len(rows(shared_database, "SELECT FROM broker.retry_actions WHERE NOT active")) == passive_actions


def test_an_attempt_that_already_runs_is_the_last(shared_database: Database) -> None:
    fail_job(shared_database, panda_rule(1, "no_retry"))
    with shared_database.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE doma_panda.jedi_dataset_contents SET status = 'running', pandaid = 6 WHERE fileid = 1"
        )
    retry(shared_database)
    assert (
        file(shared_database)["maxattempt"],
        row(shared_database, "SELECT * FROM doma_panda.jedi_datasets")["nfilesfailed"],
    ) == (1, 0)


def test_a_failure_of_the_system_does_not_count(shared_database: Database) -> None:
    classes = [{"id": 1000001, "error_source": "pilotErrorCode", "error_code": 1305, "error_diag": "too much",
                "error_class": "system", "active": "Y"}]  # fmt: skip
    contents = [content(1, 5, maxfailure=2), content(4, maxfailure=2)]
    fail_job(shared_database, error_classification=classes, jedi_dataset_contents=contents)
    retry(shared_database)
    assert (file(shared_database)["maxfailure"], file(shared_database, 4)["maxfailure"]) == (3, 2)
    assert row(shared_database, "SELECT rule FROM broker.retry_actions")["rule"] == "class:1000001"


def test_a_locked_task_waits(shared_database: Database) -> None:
    fail_job(shared_database, panda_rule(1, "no_retry"))
    with shared_database.begin() as connection:
        connection.exec_driver_sql("SELECT FROM doma_panda.jedi_tasks WHERE jeditaskid = 1 FOR UPDATE")
        run_record, _ = retry(shared_database)
        assert (run_record.counts["left"], run_record.counts["looked_at"]) == (1, 0)
    retry(shared_database)
    assert file(shared_database)["maxattempt"] == 1


def test_the_brake_leaves_files_for_the_next_cycle(shared_database: Database) -> None:
    numbers = range(101, 231)
    jobs = [job(n, "holding", starttime=STAMP, endtime=STAMP, piloterrorcode=1305) for n in numbers]
    fill(
        shared_database, jobs,
        jedi_datasets=[dataset(nfiles=130, nfilestobeused=130, nfilesused=130)],
        jedi_dataset_contents=[content(n, n) for n in numbers], filestable4=[record(n, n) for n in numbers],
        job_output_report=[
            {"pandaid": n, "attemptnr": 0, "jobstatus": "failed", "timestamp": STAMP, "data": ""} for n in numbers
        ],
        retryactions=[{"retryaction_id": 1, "retry_action": "no_retry", "active": "Y"}],
        retryerrors=[panda_rule(1, "no_retry")],
    )  # fmt: skip
    run_agent(shared_database, "completion")
    run_record, _ = retry(shared_database, options={"jobs_of_a_batch": 40})
    assert (run_record.counts["files_lost"], run_record.counts["held_back"], run_record.counts["left"]) == (100, 30, 30)
    run_record, _ = retry(shared_database)
    assert (run_record.counts["files_lost"], run_record.counts["left"]) == (30, 0)


def test_a_dry_run_and_a_fault_leave_everything(shared_database: Database) -> None:
    fail_job(shared_database, panda_rule(1, "no_retry"))
    _, objects = retry(shared_database, dry=True)
    assert [item["after"] for item in objects] == [{"maxattempt": None}]
    fault_points.arm({"BROKER_FAULT": "after_write_before_commit:raise"})
    failed, _ = run_agent(shared_database, "retries")
    fault_points.disarm()
    assert failed.outcome != "done"
    assert (file(shared_database)["maxattempt"], rows(shared_database, "SELECT FROM broker.retry_actions")) == (3, [])
    retry(shared_database)
    assert file(shared_database)["maxattempt"] == 1


def test_a_rule_that_cannot_act_is_reported(shared_database: Database) -> None:
    fail_job(shared_database, panda_rule(1, "no_retry", errordiag="("))
    run_record, _ = retry(shared_database)
    assert any("panda:1" in note and "regular expression" in note for note in run_record.notes)


def trial_of(database: Database, name: str) -> retries.RuleTest:
    with database.read_snapshot() as connection:
        query = QueryContext(connection, database.names, NOW)
        return retries.test_rule(query, retries.rule_named(query, name))


def test_the_trial_of_a_rule_shows_its_savings_and_its_costs(shared_database: Database) -> None:
    times = {"starttime": "2026-08-01T10:00:00", "endtime": "2026-08-01T11:00:00", "modificationtime": STAMP}
    failed = {**times, "piloterrorcode": 1305, "piloterrordiag": "too much memory"}
    fill(
        shared_database,
        [job(5, "failed", **failed), job(6, "failed", attemptnr=1, corecount=8, **times),
         job(7, "finished", attemptnr=2, **times),
         job(8, "failed", **failed | {"modificationtime": "2026-07-20T11:00:00"}),
         job(9, "failed", **failed | {"piloterrordiag": "something else"})],
        jedi_datasets=[dataset()], jedi_dataset_contents=[content(1)],
        filestable4=[record(5, 1), record(6, 1, attemptnr=1), record(7, 1, attemptnr=2)],
    )  # fmt: skip
    name = add(shared_database, action="no_retry", diag=".*memory")
    trial = trial_of(shared_database, name)
    assert (trial.looked_at, trial.jobs, trial.tasks, trial.by_queue) == (2, 1, 1, {"Q": 1})
    assert (trial.later_attempts, trial.later_core_h) == (2, 8.0)
    assert (trial.later_finished, trial.later_finished_core_h) == (1, 1.0)
    limit_trial = trial_of(
        shared_database, add(shared_database, action="limit_retry", parameters="maxAttempt=2", diag=".*memory")
    )
    assert (limit_trial.later_attempts, limit_trial.later_finished) == (1, 1)
    memory_trial = trial_of(shared_database, add(shared_database, action="increase_memory"))
    assert (memory_trial.jobs, memory_trial.later_attempts) == (2, 0)
    with shared_database.read_snapshot() as connection:
        assert len(retries.rule_list(QueryContext(connection, shared_database.names, NOW)).rules) == 3
