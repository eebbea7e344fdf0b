"""Rebrokerage of users' jobs on whole databases: which jobs form a set, since when it waits, and which jobs move."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from agents.service import fault_points
from broker.store.connection.database import Database
from tests.agents.moving_jobs import closed_jobs, column, config, fill, job, queue, run

NAME = "analysis_rebrokerage"
OLD, LIMIT, YOUNG = "2026-07-31T20:00:00", "2026-08-01T00:00:00", "2026-08-01T00:00:01"
RECENT = "2026-08-01T09:00:01"


def user_job(pandaid: int, jobstatus: str = "activated", **columns: Any) -> dict[str, Any]:
    plain = {"prodsourcelabel": "user", "jobdefinitionid": 5, "jobsetid": 6, "produsername": "asta", "gshare": "UA"}
    return job(pandaid, jobstatus, **{**plain, "statechangetime": OLD, "creationtime": OLD, **columns})


def log_row(pandaid: int, at: str, status: str = "activated") -> dict[str, Any]:
    return {"pandaid": pandaid, "modificationtime": at, "jobstatus": status}


def outcomes(database: Database, jobs: list[dict[str, Any]], **tables: Any) -> list[str]:
    fill(database, jobs, **tables)
    record, objects = run(database, NAME, dry=True)
    assert record.error is None
    return [item["outcome"] for item in objects]


def test_a_submission_without_progress_goes_as_a_whole(shared_database: Database) -> None:
    jobs = [
        user_job(n, status) for n, status in enumerate(("starting", "activated", "activated", "defined", "assigned"), 1)
    ]
    others = [
        user_job(10, "running"),
        user_job(11, jobdefinitionid=6, jobsetid=None),
        user_job(12, computingsite="R", creationtime=YOUNG, statechangetime=YOUNG),
        job(13, jobdefinitionid=5, jeditaskid=2),
    ]
    log = [log_row(1, OLD), log_row(1, YOUNG, "starting"), log_row(2, YOUNG)]
    fill(shared_database, [*jobs, *others], jobs_statuslog=log)
    record, objects = run(shared_database, NAME, dry=True)
    assert (record.outcome, closed_jobs(shared_database)) == ("done", [])
    record, written_objects = run(shared_database, NAME)
    assert [(item["queue"], item["outcome"]) for item in written_objects] == [("Q", "rebrokered"), ("R", "fresh")]
    assert written_objects[0] == objects[0] | {"dry_run": False, "moved": 5}
    assert objects[0] | {"picked": 0} == {
        "jeditaskid": 1, "jobdefinitionid": 5, "queue": "Q", "produsername": "asta", "workinggroup": None,
        "table": "jobsactive4", "waits_since": OLD, "value_s": 57600.0, "limit_s": 43200.0, "outcome": "rebrokered",
        "exempt": None, "picked": 0, "dry_run": True, "moved": 0, "skipped": 0,
    }  # fmt: skip
    assert objects[0]["picked"] == [5, 4, 3, 2, 1]
    assert closed_jobs(shared_database) == [1, 2, 3, 4, 5]
    actions = "SELECT DISTINCT concat_ws(' ', rule, action, code, value_s, limit_s) FROM broker.job_actions"
    assert column(shared_database, actions) == ["analysis_rebrokerage reassigned 51 57600 43200"]
    assert column(shared_database, "SELECT DISTINCT jobsubstatus FROM doma_panda.jobsarchived4") == ["toreassign"]
    second, objects = run(shared_database, NAME)
    assert (second.counts["moved"], [item["queue"] for item in objects]) == (0, ["R"])


ACTIVATED: list[tuple[dict[str, Any], list[str], str | None]] = [
    ({}, [LIMIT], "rebrokered"),
    ({}, [YOUNG], "fresh"),
    ({}, [OLD, YOUNG], "fresh"),
    ({"statechangetime": LIMIT}, [], "rebrokered"),
    ({"statechangetime": YOUNG}, [], "fresh"),
    ({"statechangetime": "1970-01-01T00:00:00", "modificationtime": YOUNG}, [], "fresh"),
    ({"statechangetime": None, "modificationtime": None}, [], "time_unknown"),
    ({"prodsourcelabel": "panda"}, [], "rebrokered"),
    ({"prodsourcelabel": "managed"}, [], None),
    ({"prodsourcelabel": None}, [], None),
    ({"lockedby": None}, [], None),
    ({"jobsetid": None}, [], None),
    ({"jeditaskid": None}, [], None),
    ({"jobdefinitionid": None}, [], None),
    ({"computingsite": "gone"}, [], "unknown_queue"),
    ({"computingsite": None}, [], None),
    ({"produsername": None}, [], "rebrokered"),
]


def test_activated_jobs(shared_database: Database) -> None:
    jobs = [user_job(n, **{"jeditaskid": n, **columns}) for n, (columns, _, _) in enumerate(ACTIVATED)]
    log = [log_row(n, time) for n, (_, times, _) in enumerate(ACTIVATED) for time in times]
    fill(shared_database, jobs, jobs_statuslog=log)
    record, objects = run(shared_database, NAME, dry=True)
    assert record.error is None
    outcome_by_task = {item["jeditaskid"]: item["outcome"] for item in objects}
    for n, (columns, times, outcome) in enumerate(ACTIVATED):
        assert outcome_by_task.pop(n, None) == outcome, (columns, times)
    assert outcome_by_task == {}


def test_defined_jobs_wait_since_the_last_of_them_was_created(shared_database: Database) -> None:
    defined = [user_job(1, "defined", jobsetid=None), user_job(2, "assigned", creationtime=LIMIT)]
    assert outcomes(shared_database, defined) == ["rebrokered"]
    assert outcomes(shared_database, [*defined, user_job(3, "defined", creationtime=YOUNG)]) == ["fresh"]
    # jobs younger than three hours delay no set
    assert outcomes(shared_database, [*defined, user_job(3, "defined", creationtime="2026-08-01T09:00:00")]) == [
        "rebrokered"
    ]
    assert outcomes(shared_database, [user_job(3, "defined", creationtime=None)]) == []
    # neither does a set that is activated elsewhere, unless it waits for more than three hours
    elsewhere = user_job(9, computingsite="R", statechangetime="2026-08-01T09:00:00")
    assert outcomes(shared_database, [*defined, elsewhere]) == ["too_young", "rebrokered"]
    assert outcomes(shared_database, [*defined, elsewhere | {"statechangetime": "2026-08-01T08:59:59"}]) == ["fresh"]


ACTIVITY: list[tuple[dict[str, Any], str]] = [
    ({}, "active"),
    ({"jobstatus": "finished"}, "active"),
    ({"jobstatus": "closed"}, "rebrokered"),
    ({"jobstatus": "failed"}, "rebrokered"),
    ({"jobstatus": "starting"}, "rebrokered"),
    ({"jobstatus": None}, "rebrokered"),
    ({"statechangetime": "2026-08-01T09:00:00"}, "rebrokered"),
    ({"computingsite": "R"}, "rebrokered"),
    ({"produsername": "bo"}, "rebrokered"),
    ({"jobdefinitionid": 7}, "rebrokered"),
    ({"jeditaskid": 7000}, "rebrokered"),
]


def test_recent_activity_of_the_same_submission_holds_it(shared_database: Database) -> None:
    recent = {"prodsourcelabel": "x", "statechangetime": RECENT, "jobstatus": "running"}
    busy = [user_job(100 + n, **{**recent, "jeditaskid": n, **columns}) for n, (columns, _) in enumerate(ACTIVITY)]
    ended = [item for item in busy if item["jobstatus"] in ("finished", "closed", "failed")]
    jobs = [user_job(n, jeditaskid=n) for n in range(len(ACTIVITY))]
    fill(shared_database, [*jobs, *(item for item in busy if item not in ended)], jobsarchived4=ended)
    _, objects = run(shared_database, NAME, dry=True)
    outcome_by_task = {item["jeditaskid"]: item["outcome"] for item in objects}
    for n, (columns, outcome) in enumerate(ACTIVITY):
        assert outcome_by_task[n] == outcome, columns


def test_groups_have_their_own_timeout_and_queues_their_exceptions(shared_database: Database) -> None:
    groups = {"own": 20, "zero": 0}
    rows = [config("ANALY_TIMEOUT", 15)] + [config(f"ANALY_TIMEOUT_{name}", hours) for name, hours in groups.items()]
    limits = {None: 15, "none": 15, "own": 20, "zero": 15}
    jobs = [user_job(n, workinggroup=group, jobdefinitionid=n) for n, group in enumerate(limits, 1)]
    queues = {"P": {"status": "paused"}, "D": {"catchall": "disableReassign"}, "T": {"status": "test"}, "Q": {}}
    others = [
        user_job(10 + n, computingsite=name, jobdefinitionid=10 + n, statechangetime="2026-08-01T08:00:00")
        for n, name in enumerate(queues)
        if name != "Q"
    ]
    fill(
        shared_database,
        jobs + others,
        config=rows,
        schedconfig_json=[queue(name, **data) for name, data in queues.items()],
    )
    _, objects = run(shared_database, NAME)
    assert {item["workinggroup"]: item["limit_s"] / 3600 for item in objects if item["queue"] == "Q"} == limits
    assert [item["outcome"] for item in objects] == [
        "rebrokered", "rebrokered", "fresh", "rebrokered", "exempt", "exempt", "rebrokered",
    ]  # fmt: skip
    assert [item["exempt"] for item in objects[3:]] == [None, "paused", "disableReassign", None]
    assert closed_jobs(shared_database) == [1, 2, 4, 12]


def test_only_requested_tasks_are_considered(shared_database: Database) -> None:
    fill(shared_database, [user_job(1), user_job(2, jeditaskid=2)])
    assert [item["picked"] for item in run(shared_database, NAME, tasks=(2,))[1]] == [[2]]
    fill(shared_database, [user_job(1)], schedconfig_json=[])
    record, _ = run(shared_database, NAME)
    assert (record.outcome, closed_jobs(shared_database)) == ("refused", [])


def test_zero_hours_are_taken_literally(shared_database: Database) -> None:
    young = user_job(1, statechangetime="2026-08-01T08:59:59")
    assert outcomes(shared_database, [young], config=[config("ANALY_TIMEOUT", 0)]) == ["rebrokered"]


def test_a_job_that_changed_meanwhile_stays(shared_database: Database) -> None:
    fill(shared_database, [user_job(1), user_job(2)])

    def start() -> None:
        with shared_database.begin() as connection:
            connection.execute(sa.text("UPDATE doma_panda.jobsactive4 SET jobstatus = 'running' WHERE pandaid = 2"))

    fault_points.arm_action("before_write", start)
    record, objects = run(shared_database, NAME)
    assert (objects[0]["moved"], objects[0]["skipped"], record.counts["skipped"]) == (1, 1, 1)
    assert closed_jobs(shared_database) == [1]
