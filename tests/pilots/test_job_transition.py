from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from broker.pilots.model.job_report import JobReport
from broker.pilots.model.job_transition import JobState, transition

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC).replace(tzinfo=None)
EARLIER = NOW - timedelta(hours=1)


def changed(status: str, state: str, report: dict[str, Any] | None = None, **job: Any) -> Any:
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
    found = changed(status, state)
    assert (found.reason, found.status, found.is_applied) == ("reported", new, True)
    assert found.columns["jobstatus"] == (new or status)
    assert found.columns["modificationtime"] == NOW
    assert found.is_final == (state in ("finished", "failed"))
    assert ("statechangetime" in found.columns) == (new is not None or found.is_final)


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
    found = changed(status, state, report, **job)
    assert (found.reason, found.command, dict(found.columns), found.is_applied) == (reason, command, {}, False)


def test_an_unknown_job_is_to_be_killed() -> None:
    assert transition(None, JobReport(5, "running"), NOW).command == "tobekilled"


@pytest.mark.parametrize(
    ("before", "now", "is_killed"),
    [("a.1", "a.2", True), ("a.1", "a.1", False), ("12", "a.2", False), ("a.1", "13", False), (None, "a", False)],
)
def test_another_batch_id_is_another_worker(before: str | None, now: str, is_killed: bool) -> None:
    found = changed("running", "running", {"columns": {"batchid": now}}, batchid=before)
    assert (found.command == "tobekilled") == is_killed
    assert (found.columns.get("superrorcode") == 1) == is_killed


def test_the_first_running_starts_the_job() -> None:
    first = changed("starting", "running")
    assert (first.starts, first.columns["starttime"]) == (True, NOW)
    again = changed("running", "running", starttime=EARLIER)
    assert (again.starts, "starttime" in again.columns) == (False, False)


def test_the_end_is_kept_and_the_diagnosis_of_holding_removed() -> None:
    end = changed("running", "finished", {"columns": {"piloterrorcode": 0}})
    assert (end.columns["endtime"], end.columns["jobdispatchererrordiag"]) == (NOW, None)
    assert changed("running", "failed", endtime=EARLIER).columns["endtime"] == EARLIER
    held = changed("running", "holding")
    assert held.columns["jobdispatchererrordiag"] == "set to holding by the pilot at 2026-08-01 12:00:00"
    assert "endtime" not in held.columns


@pytest.mark.parametrize(
    ("command", "special", "expected"),
    [
        (None, None, None),
        ("tobekilled", None, "tobekilled"),
        (None, "debug", "debug"),
        ("tobekilled", "x,debug", "debug,tobekilled"),
    ],
)
def test_the_pilot_is_told(command: str | None, special: str | None, expected: str | None) -> None:
    assert changed("running", "running", commandtopilot=command, specialhandling=special).command == expected
