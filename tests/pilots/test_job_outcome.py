from __future__ import annotations

import json

import pytest

from broker.pilots.model.job_outcome import FinalReport, OutputFile, job_end, task_end
from broker.pilots.model.output_report import WrittenFile

OUTPUT, LOG = OutputFile("out", "output"), OutputFile("log", "log")
OPTIONAL = OutputFile("more", "output", may_be_missing=True)
WRITTEN = json.dumps(
    {
        "out": {"guid": "g", "fsize": 12, "adler32": "0a", "surl": "x"},
        "log": {"guid": "h", "fsize": "7", "md5sum": "ff"},
    }
)


def test_a_finished_job_with_all_its_files() -> None:
    end = job_end(FinalReport("finished", WRITTEN), [OUTPUT, LOG, OPTIONAL])
    assert (end.status, end.reason, end.code) == ("finished", "reported", 0)
    assert [(file.lfn, file.status) for file in end.files] == [
        ("out", "finished"),
        ("log", "finished"),
        ("more", "nooutput"),
    ]
    assert [file.written for file in end.files][:2] == [
        WrittenFile("out", "g", 12, "ad:0a"),
        WrittenFile("log", "h", 7, "md:ff"),
    ]


@pytest.mark.parametrize(
    ("data", "reason", "diag"),
    [
        ("{}", "output_missing", "log, out"),
        ("", "output_missing", "log, out"),
        ('{"out": {}}', "output_missing", "log"),
        ("<xml/>", "bad_output_report", "not_json"),
        ("[]", "bad_output_report", "wrong_type"),
        ('{"out": 1}', "bad_output_report", "wrong_type"),
        ("[" * 200, "bad_output_report", "too_deep"),
    ],
)
def test_a_job_without_its_output_files_fails(data: str, reason: str, diag: str) -> None:
    end = job_end(FinalReport("finished", data), [OUTPUT, LOG])
    assert (end.status, end.reason, end.ddm_error) == ("failed", reason, 200)
    assert diag in end.ddm_diag


@pytest.mark.parametrize("data", ["", "{}", "<xml/>"])
def test_a_job_that_writes_nothing_needs_no_report(data: str) -> None:
    assert job_end(FinalReport("finished", data), []).status == "finished"


def test_a_failed_job_keeps_its_log() -> None:
    end = job_end(FinalReport("failed", WRITTEN, 1305, 0, "3"), [OUTPUT, LOG])
    assert (end.status, end.reason, end.code, end.ddm_error) == ("failed", "reported", 1305, 0)
    assert [(file.lfn, file.status) for file in end.files] == [("out", "failed"), ("log", "finished")]


@pytest.mark.parametrize(
    ("pilot", "exe", "exit_code", "code"), [(1305, 2, "3", 1305), (0, 2, "3", 2), (0, 0, "3", 3), (0, 0, "x", 0)]
)
def test_the_most_specific_error_code_is_reported(pilot: int, exe: int, exit_code: str, code: int) -> None:
    assert job_end(FinalReport("failed", "", pilot, exe, exit_code), []).code == code


@pytest.mark.parametrize(
    ("to_be_used", "finished", "failed", "status"),
    [
        (0, 0, 0, None),
        (3, 2, 0, None),
        (3, 3, 0, "done"),
        (3, 2, 1, "finished"),
        (3, 0, 3, "failed"),
        (3, 4, 0, "done"),
    ],
)
def test_a_task_ends_with_its_input(to_be_used: int, finished: int, failed: int, status: str | None) -> None:
    assert task_end(to_be_used, finished, failed) == status
