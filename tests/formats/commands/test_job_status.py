"""``broker job-status`` as pilots and sites use it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from tests.cli.commands import Command, runner
from tests.formats.contract_cases import cases

DOCUMENT = cases("job_status")


@pytest.fixture
def job_status(capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "job-status")


@pytest.mark.parametrize("case", DOCUMENT["formulas"], ids=lambda case: case["what"])
def test_read_gives_the_figures(job_status: Command, tmp_path: Path, case: dict[str, Any]) -> None:
    for name, text in {**DOCUMENT["record"], **case["record"]}.items():
        if text is not None:
            (tmp_path / name).write_text(text)
    allocated = [] if case["allocated_cpu"] is None else ["--allocated-cpu", str(case["allocated_cpu"])]
    shown = job_status("read", str(tmp_path), *allocated, "--at", str(case["now"]), "--json").document
    result = {**DOCUMENT["gives"], **case["gives"]}
    assert {name: shown[name] for name in result} == result
    assert shown["formula_without_limits"] == {**result, **case["plain"]}
    assert shown["flags"] == case["flags"]


def test_write_then_read(job_status: Command, tmp_path: Path) -> None:
    done = job_status("write", str(tmp_path), "used_CPU=6", "priority_factor=-2", "can_postpone_last_job=False")
    assert (done.status, done.out) == (0, "")
    shown = job_status("read", str(tmp_path), "--json").document
    assert shown["files"] == {"used_CPU": 6, "can_postpone_last_job": False, "priority_factor": -2}
    table = job_status("read", str(tmp_path))
    assert table.status == 0 and "priority_factor" in table.out


def test_the_directory_is_that_of_the_environment(
    job_status: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert job_status("write", "used_CPU=6").status == 2
    assert job_status("read", "--json").document["flags"] == ["directory:not-set"]
    assert job_status("report", "--pandaid", "7").status == 3
    own = tmp_path / "a=b"
    own.mkdir()
    (tmp_path / "site").mkdir()
    monkeypatch.setenv("JOBSTATUS", str(tmp_path / "site"))
    assert job_status("write", "used_CPU=6").status == 0
    assert job_status("write", str(own), "used_CPU=4").status == 0
    assert job_status("read", "--json").document["files"] == {"used_CPU": 6}
    assert job_status("read", str(own), "--json").document["files"] == {"used_CPU": 4}
    assert job_status("write", "used_cpu=6").status == 3


def test_a_job_that_takes_more_payloads_again_leaves_its_record_for_a_while(
    job_status: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_status("write", str(tmp_path), "used_CPU=6", "can_postpone_last_job=False", "--at", "1000")
    new = ("write", str(tmp_path), "used_CPU=8", "can_postpone_last_job=True", "--json", "--at")
    held = job_status(*new, "1010")
    assert held.document == {"used_CPU": 6, "can_postpone_last_job": True}
    assert "held off until 1610" in held.err and "used_CPU" in held.err
    assert job_status(*new, "1609").document["used_CPU"] == 6
    monkeypatch.setenv("BROKER_JOB_STATUS_HOLD_OFF_S", "30")
    done = job_status(*new, "1041")
    assert (done.document["used_CPU"], done.err) == (8, "")


def test_rank_takes_any_number_that_a_user_may_write(job_status: Command, tmp_path: Path) -> None:
    huge = 10**400
    jobs = [
        {"id": "a", "user": "u", "cores": 8, "kill_waste": huge, "remaining_time_max": huge, "draining_waste": huge},
        {"id": "b", "user": "u", "cores": 8, "kill_waste": -huge, "priority": -huge, "jobstart": huge},
    ]
    file = tmp_path / "jobs.json"
    for mode in ("kill", "drain"):
        file.write_text(json.dumps({"cores_needed": 16, "mode": mode, "window_s": huge, "jobs": jobs}))
        for arguments in ((), ("--at", "1700000000")):
            assert job_status("rank", str(file), "--json", *arguments).status == 0
            assert job_status("rank", str(file), *arguments).status == 0


@pytest.mark.parametrize("case", DOCUMENT["pilots"], ids=lambda case: case["what"])
def test_write_what_a_pilot_runs(job_status: Command, tmp_path: Path, case: dict[str, Any]) -> None:
    (tmp_path / "d").mkdir()
    file = tmp_path / "payloads.json"
    file.write_text(json.dumps(case))
    assert job_status("write", str(tmp_path / "d"), "--payloads", str(file), "--json").document == case["files"]
    shown = job_status(
        "read", str(tmp_path / "d"), "--allocated-cpu", str(case["allocated_cpu"]), "--at", str(case["now"]), "--json"
    ).document
    assert (shown["draining_waste"], shown["kill_waste"]) == (case["draining_waste"], case["kill_waste"])


@pytest.mark.parametrize("case", DOCUMENT["rankings"], ids=lambda case: case["what"])
def test_rank(job_status: Command, tmp_path: Path, case: dict[str, Any]) -> None:
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({name: value for name, value in case.items() if name != "result"}))
    done = job_status("rank", str(file), "--json")
    assert done.status == 0
    assert {name: done.document[name] for name in case["result"]} == case["result"]
    table = job_status("rank", str(file))
    assert table.status == 0 and "what to do" in table.out


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("write", "DIR"), 3),
        (("write", "DIR", "used_CPU=six"), 3),
        (("write", "DIR", "used_cpu=6"), 3),
        (("write", "DIR", "used_CPU=6", "used_CPU=7"), 3),
        (("write", "DIR/none", "used_CPU=6"), 1),
        (("rank", "DIR/none.json"), 1),
        (("read", "DIR", "--allocated-cpu", "0"), 2),
    ],
)
def test_what_cannot_be_done(job_status: Command, tmp_path: Path, arguments: tuple[str, ...], status: int) -> None:
    done = job_status(*(word.replace("DIR", str(tmp_path)) for word in arguments))
    assert (done.status, done.out) == (status, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        '{"jobs": []}',
        '{"cores_needed": -1, "jobs": []}',
        '{"cores_needed": "8", "jobs": []}',
        '{"cores_needed": 1, "jobs": [{"id": "a"}]}',
    ],
)
def test_documents_that_are_not_what_is_needed(job_status: Command, tmp_path: Path, text: str) -> None:
    file = tmp_path / "jobs.json"
    file.write_text(text)
    assert job_status("rank", str(file), "--json").status == 3


def test_no_record_is_told_and_is_no_failure(job_status: Command, tmp_path: Path) -> None:
    done = job_status("read", str(tmp_path / "none"), "--json")
    assert (done.status, done.document["flags"], done.document["remaining_time"]) == (0, ["directory:missing"], None)


def test_a_pilot_passes_the_record_on(database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command = runner(capsys, "--db", database.url, "job-status")
    command("write", str(tmp_path), "used_CPU=6", "last_job_start=1699999400", "add_uncom_time=1200")
    options = ("--pandaid", "7", "--allocated-cpu", "8", "--at")
    done = command("report", str(tmp_path), *options, "1700000000", "--json")
    assert (done.document["kept"], done.document["kill_waste"]) == (True, 4800)
    assert "newer record" in command("report", str(tmp_path), *options, "1699999999").err
    assert command("report", str(tmp_path / "none"), *options, "1700000000").status == 3


def test_a_drain_of_a_queue_chooses_by_what_its_jobs_reported(
    database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = runner(capsys, "--db", database.url, "job-status")
    start = datetime.fromtimestamp(1_699_990_000, UTC).replace(tzinfo=None)
    rows = [
        (1, "asta", 8, start),
        (2, "asta", 8, start),
        (3, None, 8, start),
        (4, "bo", None, None),
        (5, "bo", 8, None),
    ]
    with database.begin() as connection:
        for pandaid, user, cores, started in rows:
            statement = """
                INSERT INTO doma_panda.jobsactive4
                    (pandaid, computingsite, jobstatus, produsername, corecount, starttime)
                VALUES (:pandaid, 'Q', :status, :user, :cores, :started)"""
            values = {"pandaid": pandaid, "user": user, "cores": cores, "started": started}
            connection.execute(sa.text(statement), values | {"status": "running" if pandaid < 5 else "holding"})
    for pandaid, lost in ((1, 4000), (2, 900)):
        command("write", str(tmp_path), "used_CPU=0", "last_job_start=1699990000", f"add_uncom_time={lost}")
        command("report", str(tmp_path), "--pandaid", str(pandaid), "--allocated-cpu", "8", "--at", "1699999900")
    chosen = command("drain", "Q", "--cores", "12", "--at", "1700000000", "--json").document
    assert (chosen["victims"], chosen["cores_freed"], chosen["enough"]) == (["2", "1"], 16, True)
    assert {one["id"]: one["cost"] for one in chosen["reasons"]} == {"1": 4000, "2": 900, "3": 80_000, "4": None}
    late = command("drain", "Q", "--cores", "12", "--at", "1700000600", "--json").document
    assert late["victims"] == ["1", "2"]  # an old report says nothing of losses
    assert command("drain", "Q", "--cores", "0").status == 2
    assert "not enough" in command("drain", "R", "--cores", "1").err
