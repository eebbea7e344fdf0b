"""Timeout rules one second before and after their limits, all exceptions, and the scan compared with single checks."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from random import Random
from typing import Any

from hypothesis import given, settings, strategies as st

from broker.lifecycle.model.check_job import acting, check_job
from broker.lifecycle.model.jobs import Job
from broker.lifecycle.model.rules import RULES
from broker.lifecycle.statements.actions import TABLES
from broker.lifecycle.statements.scan import find_job, triggered_inactive_queues
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from tests.lifecycle.lifecycle_grid import (
    CONFIG,
    DAY,
    HOUR,
    MINUTE,
    NOW,
    QUEUES,
    Rows,
    ago,
    due,
    queue,
    read_inputs,
    setting,
    store,
)
from tests.store.small_work import all_rows

Outcome = tuple[str, float, float, str, int] | None
TIMES = ("modificationtime", "statechangetime", "creationtime", "starttime", "endtime")


def job(status: str, queue: str = "ON", **columns: Any) -> dict[str, Any]:
    """A recent production job of JEDI; times are given in seconds before now."""
    defaults = {"prodsourcelabel": "managed", "lockedby": "jedi", "relocationflag": 0, "processingtype": "simul"}
    times = {name: ago(columns[name]) for name in TIMES if isinstance(columns.get(name), int | float)}
    fresh = {"modificationtime": ago(1), "statechangetime": ago(1), "creationtime": ago(1), "currentpriority": 100}
    return {"jobstatus": status, "computingsite": queue} | defaults | fresh | columns | times


def edges(
    status: str, clock: str, limit: float, verdict: tuple[str, str, int], **columns: Any
) -> list[tuple[Any, Outcome]]:
    """The same job one second before its limit, at the limit, and one second over it."""
    rule, action, code = verdict
    overdue: Outcome = (rule, limit + 1, limit, action, code)
    return [
        (job(status, **columns, **{clock: age}), overdue if age > limit else None)
        for age in (limit - 1, limit, limit + 1)
    ]


def not_due(status: str, **columns: Any) -> tuple[Any, Outcome]:
    """A job on which no rule acts."""
    return job(status, **columns), None


HIGH, LOW = {"currentpriority": 800}, {"currentpriority": 799}
LABELS_LEFT_ALONE = ({"prodsourcelabel": "user"}, {"prodsourcelabel": "test"})
BUILD = {"prodsourcelabel": "panda", "transformation": "http://x/buildGen"}
ANCIENT = dict.fromkeys(TIMES, 400 * DAY)
INACTIVE = ("inactive_queue", "reassigned", 51)
M, S, C = "modificationtime", "statechangetime", "creationtime"

ACTIVE_CASES: list[tuple[Any, Outcome]] = [
    *edges("sent", M, 30 * MINUTE, ("sent", "failed", 102)),
    # holding: the priority selects the limit; the end of the job counts like its last change
    *edges("holding", M, 3 * HOUR, ("holding_high", "failed", 100), **HIGH),
    *edges("holding", M, 3 * HOUR, ("holding_high", "failed", 100), currentpriority=801),
    *edges("holding", M, 48 * HOUR, ("holding", "failed", 100), **LOW),
    *edges("holding", M, 48 * HOUR, ("holding", "failed", 100), currentpriority=None),
    *edges("holding", "endtime", 3 * HOUR, ("holding_high", "failed", 103), **HIGH),
    (job("holding", modificationtime=49 * HOUR, endtime=50 * HOUR), ("holding", 50 * HOUR, 48 * HOUR, "failed", 103)),
    not_due("holding", endtime="1970-01-01T00:00:00"),
    not_due("holding", modificationtime=None),
    # heartbeats
    *edges("running", M, 2 * HOUR, ("heartbeat", "failed", 100)),
    *edges("starting", M, 2 * HOUR, ("heartbeat", "failed", 100)),
    *edges("stagein", M, 2 * HOUR, ("heartbeat", "failed", 100)),
    *edges("stageout", M, 2 * HOUR, ("heartbeat", "failed", 100)),
    *edges("running", M, 10 * HOUR, ("heartbeat", "failed", 100), queue="PUSH"),
    *edges("running", M, 10 * HOUR, ("heartbeat", "failed", 100), queue="OFFPUSH"),
    *edges("running", M, 10 * HOUR, ("heartbeat", "failed", 100), queue="PUSH", prodsourcelabel="user"),
    *edges("running", M, 0, ("heartbeat", "failed", 100), queue="QUICK"),
    *edges("running", M, 2 * HOUR, ("heartbeat", "failed", 100), queue="PLAIN"),
    *edges("running", M, 2 * HOUR, ("heartbeat", "failed", 100), queue="UNKNOWN"),
    *edges("running", M, 3 * HOUR, ("heartbeat", "failed", 100), prodsourcelabel="user"),
    *edges("running", M, 3 * HOUR, ("heartbeat", "failed", 100), prodsourcelabel="panda", queue="UNKNOWN"),
    *edges("running", M, 2 * HOUR, ("heartbeat", "failed", 100), prodsourcelabel=None, lockedby=None),
    (job("running", modificationtime=9000, piloterrordiag="x"), ("heartbeat", 9000, 7200, "failed", 101)),
    (job("running", modificationtime=9000, exeerrordiag="x"), ("heartbeat", 9000, 7200, "failed", 101)),
    (job("running", modificationtime=9000, jobdispatchererrordiag="x", jobdispatchererrorcode=42),
     ("heartbeat", 9000, 7200, "failed", 42)),
    (job("running", modificationtime=9000, endtime=1), ("heartbeat", 9000, 7200, "failed", 105)),
    (job("running", modificationtime=9000, endtime="1970-01-01T00:00:00"), ("heartbeat", 9000, 7200, "failed", 100)),
    not_due("running", modificationtime=None),
    not_due("running", modificationtime=-DAY),
    not_due("merging", **ANCIENT),
    # transfers
    *edges("transferring", M, 2 * HOUR, ("own_stage_out", "failed", 100), jobsubstatus="x"),
    *edges("transferring", M, 10 * HOUR, ("own_stage_out", "failed", 100), jobsubstatus="x", queue="PUSH"),
    *edges("transferring", M, 2 * HOUR, ("own_stage_out", "failed", 100), jobsubstatus="x", prodsourcelabel="user"),
    (job("transferring", modificationtime=9000, endtime=9000, jobsubstatus="x"),
     ("own_stage_out", 9000, 7200, "failed", 104)),
    not_due("transferring", modificationtime=5 * DAY),
    not_due("transferring", modificationtime=5 * DAY, jobsubstatus=""),
    not_due("transferring", modificationtime=5 * DAY, jobsubstatus="x", queue="UNKNOWN"),
    not_due("transferring", modificationtime=5 * DAY, jobsubstatus="x", queue="STRANGE"),
    *edges("transferring", "endtime", 2 * DAY, ("transferring_high", "failed", 101), **HIGH),
    *edges("transferring", "endtime", 6 * DAY, ("transferring_low", "failed", 101), **LOW),
    *edges("transferring", "starttime", 6 * DAY, ("transferring_low", "failed", 101), queue="UNKNOWN"),
    not_due("transferring", endtime=5 * DAY, starttime=9 * DAY, currentpriority=None),
    # running for ever: by its start or else its creation; killed once
    *edges("running", "starttime", 21 * DAY, ("running", "killed", 2), creationtime=30 * DAY),
    *edges("running", C, 21 * DAY, ("running", "killed", 2)),
    not_due("running", starttime=22 * DAY, commandtopilot="tobekilled"),
    (job("running", starttime=22 * DAY, commandtopilot="debug"), ("running", 22 * DAY, 21 * DAY, "killed", 2)),
    (job("running", starttime=22 * DAY, modificationtime=9000), ("heartbeat", 9000, 7200, "failed", 100)),
    # inactive queues
    *edges("activated", M, 4 * HOUR, INACTIVE, queue="OLD", **HIGH),
    *edges("starting", S, 4 * HOUR, INACTIVE, queue="OFF", **HIGH),
    *edges("activated", M, 4 * HOUR, INACTIVE, queue="TEST", **HIGH),
    *edges("activated", M, 4 * HOUR, INACTIVE, queue="STRANGE", **HIGH),
    (job("activated", queue="OLD", modificationtime=3 * DAY, **HIGH),
     ("inactive_queue", 3 * DAY, 4 * HOUR, "reassigned", 51)),
    *[not_due("activated", queue=name, modificationtime=5 * HOUR, **HIGH)
      for name in ("EDGE", "FRESH", "NULLSTART", "ON", "PLAIN", "UNKNOWN")],
    *[not_due("activated", queue="OFF", modificationtime=5 * HOUR, **{**HIGH, **columns})
      for columns in (LOW, {"prodsourcelabel": "user"}, {"lockedby": None}, {"processingtype": "pmerge"},
                      {"processingtype": None}, {"relocationflag": 2}, {"relocationflag": None})],
    (job("activated", queue="OFF", modificationtime=5 * HOUR, relocationflag=1, **HIGH),
     ("inactive_queue", 5 * HOUR, 4 * HOUR, "reassigned", 51)),
    # one job that waited too long triggers the check of its queue; any time of the other jobs counts
    not_due("activated", queue="TEST", statechangetime=3 * HOUR, **HIGH),
    (job("activated", queue="CROWD", modificationtime=5 * HOUR, **HIGH),
     ("inactive_queue", 5 * HOUR, 4 * HOUR, "reassigned", 51)),
    (job("activated", queue="CROWD", statechangetime=6 * HOUR, **HIGH),
     ("inactive_queue", 6 * HOUR, 4 * HOUR, "reassigned", 51)),
    not_due("starting", queue="NICK", statechangetime=5 * HOUR, **HIGH),
    # waiting
    *edges("activated", M, 2 * DAY, ("activated", "reassigned", 51)),
    *edges("activated", M, 2 * DAY, ("activated", "reassigned", 51), relocationflag=None, processingtype=None),
    *edges("activated", M, 2 * DAY, ("activated", "reassigned", 51), queue="UNKNOWN", prodsourcelabel=None),
    *edges("starting", S, 2 * DAY, ("starting", "reassigned", 51), relocationflag=1),
    *[not_due(status, **{**ANCIENT, M: 3 * DAY if status == "activated" else 60, **columns})
      for status in ("activated", "starting")
      for columns in (*LABELS_LEFT_ALONE, {"lockedby": None}, {"relocationflag": 2})],
    not_due("activated", statechangetime=9 * DAY),
    *edges("throttled", C, 7 * DAY, ("throttled", "killed", 2), prodsourcelabel="user", lockedby=None),
    not_due("throttled", creationtime=None, modificationtime=30 * DAY),
]  # fmt: skip

DEFINED_CASES: list[tuple[Any, Outcome]] = [
    *edges("pending", C, HOUR, ("pending", "killed", 4)),
    *edges("pending", C, HOUR, ("pending", "killed", 4), lockedby=None, queue=None, commandtopilot="tobekilled"),
    *edges("defined", M, 4 * HOUR, ("defined", "reassigned", 51)),
    *edges("defined", M, 4 * HOUR, ("defined", "reassigned", 51), prodsourcelabel="test"),
    *edges("defined", C, 4 * HOUR, ("defined_other", "killed", 2), lockedby=None, prodsourcelabel="user"),
    *edges("defined", C, 4 * HOUR, ("defined_other", "killed", 2), **BUILD),
    not_due("defined", prodsourcelabel="panda", transformation="runGen", **{C: 9 * DAY, M: 9 * DAY}),
    not_due("defined", prodsourcelabel="user", **{C: 9 * DAY, M: 9 * DAY}),
    not_due("defined", creationtime=9 * DAY),
    not_due("defined", modificationtime=None, creationtime=9 * DAY),
    *edges("assigned", M, 12 * HOUR, ("assigned", "reassigned", 51)),
    not_due("assigned", prodsourcelabel="test", modificationtime=9 * DAY),
    not_due("assigned", lockedby=None, modificationtime=9 * DAY, creationtime=9 * DAY),
    not_due("waiting", **ANCIENT),
]  # fmt: skip


def as_rows(cases: list[tuple[Any, Outcome]], start: int) -> Rows:
    return [{"pandaid": start + number} | columns for number, (columns, _) in enumerate(cases)]


def outcomes(database: Database) -> dict[int, Outcome]:
    return {
        pandaid: (move.rule, move.value_s or 0.0, move.limit_s or 0.0, move.action, move.code)
        for pandaid, move in due(database).items()
    }


def outcomes_one_by_one(database: Database) -> dict[int, Outcome]:
    """The same outcomes, from the check of one job at a time."""
    result: dict[int, Outcome] = {}
    timeout_context = read_inputs(database).timeout_context
    with database.read_snapshot() as connection:
        inactive_queue_triggered = triggered_inactive_queues(
            connection, TableCatalogue.read(connection, database.names), timeout_context
        )
    for job_checked in jobs_of(database):
        job_queue = timeout_context.queues.get(job_checked.computingsite or "")
        verdicts = check_job(
            job_checked,
            job_queue,
            timeout_context.limits,
            timeout_context.now,
            job_checked.computingsite in inactive_queue_triggered,
        )
        acts = acting(verdicts)
        if acts is not None and acts.since is not None and acts.limit_s is not None:
            age_s = (timeout_context.now - acts.since).total_seconds()
            result[job_checked.pandaid] = (acts.rule.name, age_s, acts.limit_s, acts.rule.action, acts.code)
            assert acts.fires_at == acts.since + timedelta(seconds=acts.limit_s) < timeout_context.now
    return result


def jobs_of(database: Database) -> list[Job]:
    names = [field.name for field in fields(Job) if field.name != "table"]
    return [
        Job(table=table, **{name: row[name] for name in names})
        for table in TABLES
        for row in all_rows(database, f"SELECT * FROM doma_panda.{table}")
    ]


def test_one_job_is_found_in_either_table(shared_database: Database) -> None:
    store(shared_database, [{"pandaid": 1, **job("running")}], [{"pandaid": 2, **job("pending")}])
    with shared_database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, shared_database.names)
        jobs_found = [find_job(connection, catalogue, pandaid) for pandaid in (1, 2, 3)]
    assert [job_found for job_found in jobs_found if job_found is not None] == sorted(
        jobs_of(shared_database), key=lambda job_found: job_found.pandaid
    )


def test_every_rule_has_both_sides_of_its_limit() -> None:
    names = {outcome[0] for _, outcome in ACTIVE_CASES + DEFINED_CASES if outcome is not None}
    assert names == {rule.name for rule in RULES}


def test_each_case(shared_database: Database) -> None:
    active, defined = as_rows(ACTIVE_CASES, 1000), as_rows(DEFINED_CASES, 5000)
    store(shared_database, active, defined)
    expected = {
        row["pandaid"]: outcome
        for row, (_, outcome) in zip(active + defined, ACTIVE_CASES + DEFINED_CASES, strict=True)
        if outcome is not None
    }
    actual = outcomes(shared_database)
    rows = {row["pandaid"]: row for row in active + defined}
    wrong = {
        str(rows[pandaid]): (expected.get(pandaid), actual.get(pandaid))
        for pandaid in rows
        if expected.get(pandaid) != actual.get(pandaid)
    }
    assert wrong == {}
    assert outcomes_one_by_one(shared_database) == expected


EXEMPT = ("PAUSED", "CATCHALL", "PARAMS", "BAD", "NICK", "ROW")
OVERDUE = [columns for columns, outcome in ACTIVE_CASES if outcome is not None and columns["computingsite"] != "CROWD"]
OVERDUE_DEFINED = [columns for columns, outcome in DEFINED_CASES if outcome is not None]


def test_no_rule_touches_a_job_at_a_queue_with_an_exception(shared_database: Database) -> None:
    def jobs_at(name: str, jobs: Rows, start: int) -> Rows:
        return [{**columns, "pandaid": start + number, "computingsite": name} for number, columns in enumerate(jobs)]

    active = [row for number, name in enumerate(EXEMPT) for row in jobs_at(name, OVERDUE, 1000 * (number + 1))]
    defined = [
        row for number, name in enumerate(EXEMPT) for row in jobs_at(name, OVERDUE_DEFINED, 100_000 + 1000 * number)
    ]
    queues = [*QUEUES, queue("BAD", status=7)]
    store(shared_database, active + jobs_at("OTHERWISE", OVERDUE, 900_000), defined, schedconfig_json=queues)
    moves = due(shared_database)
    assert {move.queue for move in moves.values()} == {"OTHERWISE"}
    assert {move.rule for move in moves.values()} >= {
        "sent",
        "holding",
        "heartbeat",
        "running",
        "activated",
        "starting",
    }


def test_limits_are_read_from_the_rows_of_their_component(shared_database: Database) -> None:
    config = [
        *CONFIG,
        setting("job_timeout", "TIMEOUT_defined", 30, type="int", vo="wlcg"),
        setting("job_timeout", "TIMEOUT_holding", 1.5),
        setting("job_timeout", "TRANSTIMELO", 1),
        setting("job_timeout", "TIMEOUT_HIGH_PRIORITY", 900, type="int"),
        setting("watcher", "HEARTBEAT_TIMEOUT_push", 5, app="jedi"),
        setting("watcher", "HEARTBEAT_TIMEOUT_pull_ups", 5, vo="cms"),
        setting("watcher", "HEARTBEAT_TIMEOUT_production", 4),
    ]
    active = [
        {"pandaid": 1, **job("holding", modificationtime=5401, currentpriority=800)},
        {"pandaid": 2, **job("transferring", endtime=DAY + 1)},
        {"pandaid": 3, **job("running", modificationtime=4 * HOUR + 1)},
        {"pandaid": 4, **job("running", modificationtime=10 * HOUR, queue="PUSH")},
    ]
    store(shared_database, active, [{"pandaid": 5, **job("defined", modificationtime=30 * HOUR)}], config=config)
    assert {pandaid: outcome[2] for pandaid, outcome in outcomes(shared_database).items() if outcome} == {
        1: 5400.0,
        2: DAY,
        3: 4 * HOUR,
    }


def test_stale_pilot_data_makes_no_queue_inactive(shared_database: Database) -> None:
    waiting_job = {"pandaid": 1, **job("activated", "OLD", modificationtime=5 * HOUR, currentpriority=900)}
    stale = [{"site": "OLD", "flag": "production", "hours": 3, "laststart": ago(9 * HOUR), "lastmod": ago(7 * HOUR)}]
    store(shared_database, [waiting_job], sitedata=stale)
    assert due(shared_database) == {}
    assert read_inputs(shared_database).notes[0].startswith("source pilots is stale")
    store(shared_database, [waiting_job], sitedata=[{**stale[0], "lastmod": ago(HOUR)}])
    assert list(due(shared_database)) == [1]


def test_unreadable_queues_are_noted(shared_database: Database) -> None:
    rows = [
        queue("ON"),
        queue("A", catchall=["disableReassign"]),
        queue("B", params="x"),
        {"panda_queue": "C", "data": [1]},
    ]
    store(shared_database, [], schedconfig_json=rows)
    assert read_inputs(shared_database).notes == ["queues that cannot be read, where no timeout acts: 3, first A"]


def test_a_past_clock_finds_no_job_and_a_future_clock_finds_more(shared_database: Database) -> None:
    active, defined = as_rows(ACTIVE_CASES, 1000), as_rows(DEFINED_CASES, 5000)
    store(shared_database, active, defined)
    assert due(shared_database, NOW - timedelta(days=500)) == {}
    assert due(shared_database, NOW - timedelta(days=365 * 2000)) == {}
    later = due(shared_database, NOW + timedelta(days=30))
    assert set(due(shared_database)) <= set(later)
    assert len(later) > len(active)


AGES = (None, -HOUR, 0, 1799, 1801, 7200, 7201, 10_801, 14_400, 14_401, 43_201, 50 * HOUR, 8 * DAY, 30 * DAY)
VALUES: dict[str, tuple[Any, ...]] = {
    "jobstatus": (
        "pending", "defined", "assigned", "activated", "starting", "sent", "running", "holding", "transferring"
    ),
    "computingsite": ("ON", "PUSH", "OFF", "OLD", "CROWD", "PAUSED", "QUICK", "UNKNOWN", "STRANGE", None),
    "prodsourcelabel": (None, "managed", "managed", "user", "test", "panda", ""),
    "lockedby": (None, "jedi", "jedi", ""),
    "currentpriority": (None, 100, 799, 800, 900),
    "relocationflag": (None, 0, 0, 1, 2),
    "processingtype": (None, "simul", "simul", "pmerge"),
    "eventservice": (None, None, 0, 0, 0, 1, 6),
    "transformation": (None, "buildGen", "run"),
    "jobsubstatus": (None, "", "x"),
    "commandtopilot": (None, "tobekilled"),
    "exeerrordiag": (None, "", "x"),
    "jobdispatchererrordiag": (None, "", "x"),
    "jobdispatchererrorcode": (None, 7),
    **{name: tuple(None if age is None else ago(age) for age in AGES) for name in TIMES},
}  # fmt: skip


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**31))
def test_the_scan_agrees_with_the_check_of_single_jobs(shared_database: Database, seed: int) -> None:
    random = Random(seed)
    rows = [
        {"pandaid": number} | {name: random.choice(values) for name, values in VALUES.items()} for number in range(300)
    ]
    store(shared_database, rows[:200], rows[200:])
    assert outcomes(shared_database) == outcomes_one_by_one(shared_database)
