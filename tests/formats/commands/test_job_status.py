"""``broker job-status`` as used by pilots and sites."""

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
    options = [] if case["allocated_cpu"] is None else ["--allocated-cpu", str(case["allocated_cpu"])]
    document = job_status("read", str(tmp_path), *options, "--at", str(case["now"]), "--json").document
    result = {**DOCUMENT["gives"], **case["gives"]}
    assert {name: document[name] for name in result} == result
    assert document["formula_without_limits"] == {**result, **case["plain"]}
    assert document["flags"] == case["flags"]


def test_write_then_read(job_status: Command, tmp_path: Path) -> None:
    result = job_status("write", str(tmp_path), "used_CPU=6", "priority_factor=-2", "can_postpone_last_job=False")
    assert (result.status, result.out) == (0, "")
    document = job_status("read", str(tmp_path), "--json").document
    assert document["files"] == {"used_CPU": 6, "can_postpone_last_job": False, "priority_factor": -2}
    table = job_status("read", str(tmp_path))
    assert table.status == 0 and "priority_factor" in table.out


def test_the_directory_comes_from_the_environment(
    job_status: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert job_status("write", "used_CPU=6").status == 2
    assert job_status("read", "--json").document["flags"] == ["directory:not-set"]
    assert job_status("report", "--pandaid", "7").status == 3
    own_directory = tmp_path / "a=b"
    own_directory.mkdir()
    (tmp_path / "site").mkdir()
    monkeypatch.setenv("JOBSTATUS", str(tmp_path / "site"))
    assert job_status("write", "used_CPU=6").status == 0
    assert job_status("write", str(own_directory), "used_CPU=4").status == 0
    assert job_status("read", "--json").document["files"] == {"used_CPU": 6}
    assert job_status("read", str(own_directory), "--json").document["files"] == {"used_CPU": 4}
    assert job_status("write", "used_cpu=6").status == 3


def test_a_job_that_accepts_payloads_again_holds_off_its_record(
    job_status: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_status("write", str(tmp_path), "used_CPU=6", "can_postpone_last_job=False", "--at", "1000")
    write_new = ("write", str(tmp_path), "used_CPU=8", "can_postpone_last_job=True", "--json", "--at")
    held_result = job_status(*write_new, "1010")
    assert held_result.document == {"used_CPU": 6, "can_postpone_last_job": True}
    assert "held off until 1610" in held_result.err and "used_CPU" in held_result.err
    assert job_status(*write_new, "1609").document["used_CPU"] == 6
    monkeypatch.setenv("BROKER_JOB_STATUS_HOLD_OFF_S", "30")
    result = job_status(*write_new, "1041")
    assert (result.document["used_CPU"], result.err) == (8, "")


def test_rank_accepts_any_number(job_status: Command, tmp_path: Path) -> None:
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
def test_write_the_payloads_of_a_pilot(job_status: Command, tmp_path: Path, case: dict[str, Any]) -> None:
    (tmp_path / "d").mkdir()
    file = tmp_path / "payloads.json"
    file.write_text(json.dumps(case))
    assert job_status("write", str(tmp_path / "d"), "--payloads", str(file), "--json").document == case["files"]
    document = job_status(
        "read", str(tmp_path / "d"), "--allocated-cpu", str(case["allocated_cpu"]), "--at", str(case["now"]), "--json"
    ).document
    assert (document["draining_waste"], document["kill_waste"]) == (case["draining_waste"], case["kill_waste"])


@pytest.mark.parametrize("case", DOCUMENT["rankings"], ids=lambda case: case["what"])
def test_rank(job_status: Command, tmp_path: Path, case: dict[str, Any]) -> None:
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({name: value for name, value in case.items() if name != "result"}))
    outcome = job_status("rank", str(file), "--json")
    assert outcome.status == 0
    assert {name: outcome.document[name] for name in case["result"]} == case["result"]
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
def test_invalid_commands_are_refused(
    job_status: Command, tmp_path: Path, arguments: tuple[str, ...], status: int
) -> None:
    result = job_status(*(word.replace("DIR", str(tmp_path)) for word in arguments))
    assert (result.status, result.out) == (status, "")
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
def test_invalid_documents_are_refused(job_status: Command, tmp_path: Path, text: str) -> None:
    file = tmp_path / "jobs.json"
    file.write_text(text)
    assert job_status("rank", str(file), "--json").status == 3


def test_a_missing_record_is_reported_without_failure(job_status: Command, tmp_path: Path) -> None:
    result = job_status("read", str(tmp_path / "none"), "--json")
    assert (result.status, result.document["flags"], result.document["remaining_time"]) == (
        0,
        ["directory:missing"],
        None,
    )


def test_a_pilot_reports_its_record(database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command = runner(capsys, "--db", database.url, "job-status")
    command("write", str(tmp_path), "used_CPU=6", "last_job_start=1699999400", "add_uncom_time=1200")
    options = ("--pandaid", "7", "--allocated-cpu", "8", "--at")
    result = command("report", str(tmp_path), *options, "1700000000", "--json")
    assert result.document["kept"]
    reckoned = command("read", str(tmp_path), "--allocated-cpu", "8", "--at", "1700000000", "--json").document
    assert reckoned["kill_waste"] == 4800
    assert "newer record" in command("report", str(tmp_path), *options, "1699999999").err
    assert command("report", str(tmp_path / "none"), *options, "1700000000").status == 3


def test_draining_a_queue_chooses_jobs_by_their_reports(
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
        for pandaid, user, cores, start_time in rows:
            statement = """
                INSERT INTO doma_panda.jobsactive4
                    (pandaid, computingsite, jobstatus, produsername, corecount, starttime)
                VALUES (:pandaid, 'Q', :status, :user, :cores, :started)"""
            values = {"pandaid": pandaid, "user": user, "cores": cores, "started": start_time}
            connection.execute(sa.text(statement), values | {"status": "running" if pandaid < 5 else "holding"})
    for pandaid, loss in ((1, 4000), (2, 900)):
        command("write", str(tmp_path), "used_CPU=0", "last_job_start=1699990000", f"add_uncom_time={loss}")
        command("report", str(tmp_path), "--pandaid", str(pandaid), "--allocated-cpu", "8", "--at", "1699999900")
    choice = command("drain", "Q", "--cores", "12", "--at", "1700000000", "--json").document
    assert (choice["victims"], choice["cores_freed"], choice["enough"]) == (["2", "1"], 16, True)
    assert {reason["id"]: reason["cost"] for reason in choice["reasons"]} == {
        "1": 4000,
        "2": 900,
        "3": 80_000,
        "4": None,
    }
    late = command("drain", "Q", "--cores", "12", "--at", "1700000600", "--json").document
    assert late["victims"] == ["1", "2"]  # an old report gives no losses
    assert command("drain", "Q", "--cores", "0").status == 2
    assert "not enough" in command("drain", "R", "--cores", "1").err
