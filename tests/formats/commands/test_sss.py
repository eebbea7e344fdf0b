"""``broker sss`` and ``broker submit`` as users run them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.formats.model.sss.xml_reading import read_xml
from broker.store.connection.database import Database
from tests.cli.commands import Command, runner
from tests.formats.sss.documents import FOLDER, content, data

GOOD = ("simple", "delivered", "group", "exported")


@pytest.fixture
def sss(capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "sss")


@pytest.fixture
def broker(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", database.url)


def path(name: str) -> str:
    return str(FOLDER / f"{name}.xml")


@pytest.mark.parametrize("name", GOOD)
def test_validate_accepts_good_documents(sss: Command, name: str) -> None:
    result = sss("validate", path(name))
    assert (result.status, result.out) == (0, "")
    report = sss("validate", path(name), "--json").document
    assert (report["kind"], report["problems"]) == ("valid", [])


@pytest.mark.parametrize(
    ("text", "line", "kind"),
    [
        ("<Job>\n<A>1<A>\n</Job>", "3: mismatched tag; expected well-formed XML", "not-well-formed"),
        ("<!DOCTYPE Job>\n<Job/>",
         "1: document type declaration; expected no document type and no entities", "forbidden"),
        ("<Job>\n<UserId>x</UserId></Job>",
         "1: Job: JobId is missing; expected exactly one JobId", "invalid-structure"),
        ("<Job><JobId>j</JobId>\n<Interactive>1</Interactive></Job>",
         "2: Interactive: not true or false; expected true or false", "invalid-values"),
    ],
)  # fmt: skip
def test_validate_reports_the_line_and_the_expected_content(
    sss: Command, tmp_path: Path, text: str, line: str, kind: str
) -> None:
    file = tmp_path / "bad.xml"
    file.write_text(text)
    result = sss("validate", str(file))
    assert (result.status, result.out) == (1, f"{file}:{line}\n")
    result_as_json = sss("validate", str(file), "--json")
    assert (result_as_json.status, result_as_json.document["kind"]) == (1, kind)
    assert sss("show", str(file)).status == 3


def test_validate_reports_a_missing_file(sss: Command, tmp_path: Path) -> None:
    result = sss("validate", str(tmp_path / "none.xml"))
    assert (result.status, result.out) == (1, "")
    assert "cannot read" in result.err


def test_standard_input(sss: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data("simple"))))
    assert sss("validate", "-").status == 0


@pytest.mark.parametrize("name", GOOD)
def test_show(sss: Command, name: str) -> None:
    result = sss("show", path(name), "--json")
    assert result.status == 0 and result.document["jobs"]
    table = sss("show", path(name))
    assert table.status == 0 and "JobId" in table.out


def test_show_includes_request_delivery_and_columns(sss: Command) -> None:
    (job,) = sss("show", path("delivered"), "--share", "gold=Express", "--json").document["jobs"]
    assert job["requested"] == {
        "Processors": [["GE", 12]], "Memory_bytes": [["GE", 2 * 2**30]], "WallDuration": [["EQ", 5400]],
    }  # fmt: skip
    assert job["delivered"] == {
        "Processors": 16,
        "Memory_bytes": {"Maximum": 3 * 2**29, "Average": 5 * 2**28},
        "WallDuration": 3600,
    }
    assert job["panda_job"]["gshare"] == "Express"
    assert job["alternatives"] == [{"cores": "12-", "memory_mb": 2048, "disk_mb": None, "wall_s": 5400}]
    (simple,) = sss("show", path("simple"), "--json").document["jobs"]
    assert simple["requested"] == {"Processors": 8, "WallDuration": 7200}


def test_show_single_properties(sss: Command) -> None:
    assert sss("show", path("delivered"), "--get", "/Job/Requested/Memory/@units").out == "GB\n"
    assert sss("show", path("delivered"), "--get", "Charge", "--json").document == {
        "get": "Charge",
        "values": ["12.75"],
    }
    assert sss("show", path("delivered"), "--get", "text()").status == 2
    assert sss("show", path("delivered"), "--share", "gold").status == 2


def test_import_and_export(broker: Command, tmp_path: Path) -> None:
    result = broker("sss", "import", path("delivered"), "--json", "--at", "1700000000")
    assert (result.status, result.document["unmapped"]) == (0, ["InitialWorkingDirectory", "Charge", "Environment"])
    number = str(result.document["pandaid"])
    file = tmp_path / "out.xml"
    assert broker("sss", "export", "--job", number, "--output", str(file)).status == 0
    assert '<Charge units="EUR">12.75</Charge>' in file.read_text()
    assert broker("sss", "validate", str(file)).status == 0
    document = broker("sss", "export", "--job", number, "--instance", "here", "--json").document
    assert document["jobs"][0]["panda_job"]["jobStatus"] == "finished"
    table = broker("sss", "import", path("simple"))
    assert table.status == 0 and "farm.81.0" in table.out


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(("export",), 2), (("export", "--job", "1", "--task", "2"), 2), (("export", "--job", "1"), 3),
     (("export", "--task", "1"), 3)],
)  # fmt: skip
def test_invalid_commands_are_refused(broker: Command, arguments: tuple[str, ...], status: int) -> None:
    result = broker("sss", *arguments)
    assert (result.status, result.out) == (status, "")


def test_a_job_of_several_task_groups_can_be_imported_but_not_submitted(broker: Command, tmp_path: Path) -> None:
    result = broker("sss", "import", path("group"), "--json")
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert [line["JobId"] for line in lines] == ["farm.90.0", "farm.90.1", "farm.90.1"]
    file = tmp_path / "out.xml"
    arguments = ("sss", "export", "--task", str(lines[0]["jeditaskid"]), "--original-ids", "--output", str(file))
    assert broker(*arguments).status == 0
    assert content(read_xml(file.read_bytes())) == content(read_xml(data("group")))
    refusal = broker("submit", path("group"))
    assert refusal.status == 3


def test_show_includes_every_value_with_its_unit(sss: Command) -> None:
    text = sss("show", path("delivered")).out
    for words in (
        ["Charge", "12.75", "EUR"],
        ["Delivered/Processors", "16", "processors", "consumptionRate=0.5", "(fraction)"],
        ["Requested/WallDuration", "5400", "s"],
        ["StartTime", "1600003600", "s", "since", "1970", "UTC"],
        ["maxRSS", "1572864", "KB"],
    ):
        assert words in [line.split() for line in text.splitlines()], words
    group = sss("show", path("group"), "--json").document
    assert {"path": "JobDefaults/Requested/Memory", "value": "1000", "unit": "MB", "attributes": ""} in group["group"][
        "values"
    ]
    assert [columns["transformation"] for columns in group["jobs"][1]["panda_jobs"]] == ["/opt/stage"] * 2
    assert "/opt/stage" in sss("show", path("group")).out


def test_submit(broker: Command, tmp_path: Path) -> None:
    result = broker("submit", path("simple"), "--json", "--user", "asta")
    assert result.status == 0
    assert (result.document["taskname"], result.document["status"], result.document["jobs"]) == (
        "farm.81.0", "assigning", ["farm.81.0"],
    )  # fmt: skip
    table = broker("submit", path("simple"), "--nucleus", "CERN")
    assert table.status == 0 and "ready" in table.out
    assert broker("submit", path("simple"), "--user", "eve").status == 3
    assert broker("submit", path("delivered")).status == 3
    unknown = tmp_path / "job.yaml"
    unknown.write_text("x")
    assert broker("submit", str(unknown)).status == 2


def test_only_json_is_printed_with_the_json_option(broker: Command) -> None:
    result = broker("submit", path("simple"), "--json")
    assert [json.loads(line)["status"] for line in result.out.splitlines()] == ["assigning"]
