from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from broker.pilots.model.job_report import JobReport
from broker.pilots.model.job_transition import JobState, transition

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC).replace(tzinfo=None)
EARLIER = NOW - timedelta(hours=1)


def apply_report(status: str, state: str, report: dict[str, Any] | None = None, **job: Any) -> Any:
    return transition(JobState(status, **job), JobReport(5, state, **(report or {})), NOW)


@pytest.mark.parametrize(
    ("status", "state", "new"),
    [
        ("sent", "starting", "starting"),
        ("sent", "running", "running"),
        ("starting", "running", "running"),
        ("running", "running", None),
        ("running", "starting", None),
        ("running", "holding", "holding"),
        ("running", "transferring", "transferring"),
        ("running", "finished", "holding"),
        ("running", "failed", "holding"),
        ("sent", "failed", "holding"),
        ("holding", "finished", None),
        ("transferring", "finished", "holding"),
    ],
)
def test_a_report_moves_the_job(status: str, state: str, new: str | None) -> None:
    change = apply_report(status, state)
    assert (change.reason, change.status, change.is_applied) == ("reported", new, True)
    assert change.columns["jobstatus"] == (new or status)
    assert change.columns["modificationtime"] == NOW
    assert change.is_final == (state in ("finished", "failed"))
    assert ("statechangetime" in change.columns) == (new is not None or change.is_final)


@pytest.mark.parametrize(
    ("status", "state", "job", "report", "reason", "command"),
    [
        ("holding", "running", {}, {}, "late", None),
        ("transferring", "starting", {}, {}, "late", None),
        ("holding", "transferring", {}, {}, "not_from_holding", None),
        ("failed", "running", {}, {}, "already_done", "alreadydone"),
        ("finished", "finished", {}, {}, "already_done", "alreadydone"),
        ("holding", "finished", {"is_reported": True}, {}, "already_done", "alreadydone"),
        ("running", "running", {"attemptnr": 1}, {"attemptnr": 0}, "wrong_attempt", "tobekilled"),
        ("closed", "running", {}, {}, "not_given_out", "tobekilled"),
        ("activated", "running", {}, {}, "not_given_out", "tobekilled"),
        ("defined", "starting", {}, {}, "not_given_out", "tobekilled"),
    ],
)
def test_a_report_may_change_nothing(
    status: str, state: str, job: dict[str, Any], report: dict[str, Any], reason: str, command: str | None
) -> None:
    change = apply_report(status, state, report, **job)
    assert (change.reason, change.command, dict(change.columns), change.is_applied) == (reason, command, {}, False)


def test_the_pilot_of_an_unknown_job_is_told_to_kill_it() -> None:
    assert transition(None, JobReport(5, "running"), NOW).command == "tobekilled"


@pytest.mark.parametrize(
    ("before", "now", "is_killed"),
    [("a.1", "a.2", True), ("a.1", "a.1", False), ("12", "a.2", False), ("a.1", "13", False), (None, "a", False)],
)
def test_a_job_of_another_worker_is_killed(before: str | None, now: str, is_killed: bool) -> None:
    change = apply_report("running", "running", {"columns": {"batchid": now}}, batchid=before)
    assert (change.command == "tobekilled") == is_killed
    assert (change.columns.get("superrorcode") == 1) == is_killed


def test_the_first_running_report_sets_the_start_time() -> None:
    first = apply_report("starting", "running")
    assert (first.starts, first.columns["starttime"]) == (True, NOW)
    repeated = apply_report("running", "running", starttime=EARLIER)
    assert (repeated.starts, "starttime" in repeated.columns) == (False, False)


def test_the_end_time_is_kept_and_the_holding_diagnosis_removed() -> None:
    end = apply_report("running", "finished", {"columns": {"piloterrorcode": 0}})
    assert (end.columns["endtime"], end.columns["jobdispatchererrordiag"]) == (NOW, None)
    assert apply_report("running", "failed", endtime=EARLIER).columns["endtime"] == EARLIER
    holding = apply_report("running", "holding")
    assert holding.columns["jobdispatchererrordiag"] == "set to holding by the pilot at 2026-08-01 12:00:00"
    assert "endtime" not in holding.columns


@pytest.mark.parametrize(
    ("command", "special", "expected"),
    [
        (None, None, None),
        ("tobekilled", None, "tobekilled"),
        (None, "debug", "debug"),
        ("tobekilled", "x,debug", "debug,tobekilled"),
    ],
)
def test_the_commands_for_the_pilot(command: str | None, special: str | None, expected: str | None) -> None:
    assert apply_report("running", "running", commandtopilot=command, specialhandling=special).command == expected
