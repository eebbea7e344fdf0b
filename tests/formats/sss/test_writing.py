from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given, strategies as st

from broker.formats.model.sss.from_panda import ElementRow, elements_of, job_document, task_document, unmapped_rows
from broker.formats.model.sss.inheritance import whole_jobs
from broker.formats.model.sss.job_columns import map_job
from broker.formats.model.sss.model import Document, JobLevel, Property
from broker.formats.model.sss.paths import BadPathError, get
from broker.formats.model.sss.reading import read_document
from broker.formats.model.sss.values import UNITS, size_bytes, text_of
from broker.formats.model.sss.writing import write_document
from broker.formats.model.sss.xml_reading import read_xml
from tests.formats.sss.documents import data, document, job_with

NAMES = ("simple", "delivered", "group", "exported")


def without_lines(level: JobLevel) -> object:
    """A level as plain values without line numbers, for comparing two documents."""

    def plain(properties: tuple[Property, ...]) -> list[object]:
        return [(row.name, row.value, dict(row.attributes)) for row in properties]

    blocks = [
        None if block is None else (plain(block.properties), plain(block.nodes))
        for block in (level.requested, level.delivered)
    ]
    values = (level.level, level.reference, level.policy, plain(level.properties), plain(level.nodes), blocks)
    return values, level.environment, [without_lines(child) for child in level.children]


@pytest.mark.parametrize("name", NAMES)
def test_a_written_document_is_read_back_unchanged(name: str) -> None:
    original = document(name)
    xml = write_document(original)
    reread = read_document(xml)
    assert without_lines(reread.root) == without_lines(original.root)
    assert write_document(reread) == xml


def test_unknown_elements_survive() -> None:
    text = b'<Job><JobId>j</JobId><Colour depth="8"><Red>1</Red></Colour></Job>'
    assert b'<Colour depth="8">' in write_document(read_document(text))


def test_spelling_becomes_canonical() -> None:
    xml = write_document(document("delivered")).decode()
    assert 'op="GE"' in xml and 'metric="Maximum"' in xml and 'op="ge"' not in xml


@given(st.text(max_size=30), st.text(max_size=30))
def test_texts_are_escaped_and_characters_invalid_in_xml_are_removed(value: str, name: str) -> None:
    level = JobLevel(
        "Job",
        properties=(Property("JobId", "j"), Property("Arguments", value), Property("Extension", value, {"name": name})),
        environment={"X": value},
    )
    root = read_xml(write_document(Document(level)))
    assert [child.name for child in root.children] == ["JobId", "Arguments", "Extension", "Environment"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (True, "true"), (8, "8"), (1.89, "1.89"), (1e-7, "0.0000001"), (1 / 3, "0.333333333")],
)
def test_values_are_written_as_plain_text(value: object, text: str) -> None:
    assert text_of(value) == text  # type: ignore[arg-type]


def test_units_are_powers_of_1024() -> None:
    assert [UNITS[unit] for unit in ("B", "KB", "MB", "GB", "YB", "DB")] == [1, 2**10, 2**20, 2**30, 2**80, 2**100]
    assert size_bytes(41.5, "GB") == 44_560_285_696
    assert size_bytes(512, None) == 512 * 2**20


@pytest.mark.parametrize("name", ["simple", "delivered", "exported"])
def test_unmapped_properties_are_restored(name: str) -> None:
    (whole,) = whole_jobs(document(name))
    mapped_job = map_job(whole)
    rows = unmapped_rows(whole.job, mapped_job.unmapped, mapped_job.request)
    columns = {key.lower(): value for key, value in (mapped_job.columns or {}).items()}
    for column in ("creationtime", "starttime", "endtime"):
        if column in columns:
            columns[column] = datetime.fromisoformat(str(columns[column]))
    (restored,) = whole_jobs(job_document({**columns, "pandaid": 5}, rows))
    assert restored.job.text("JobId") == "5"
    assert restored.job.environment == whole.job.environment
    for element in ("UserId", "Executable", "Queue", "StartTime", "EndTime", "InitialWorkingDirectory", "Charge"):
        assert restored.job.get(element) == whole.job.get(element), element
    assert len(restored.job.all_of("Extension")) == len(
        {extension.key for extension in restored.job.all_of("Extension")}
    )
    second = map_job(restored)
    assert second.request == mapped_job.request
    shared_columns = {
        "jobStatus",
        "coreCount",
        "minRamCount",
        "maxDiskCount",
        "maxWalltime",
        "maxRSS",
        "cpuConsumptionTime",
    }
    first_columns, second_columns = mapped_job.columns or {}, second.columns or {}
    assert {key: first_columns.get(key) for key in shared_columns} == {
        key: second_columns.get(key) for key in shared_columns
    }


def test_task_groups_and_their_tasks_are_stored_whole() -> None:
    whole = whole_jobs(document("group"))[0]
    mapped_job = map_job(whole)
    rows = unmapped_rows(whole.job, mapped_job.unmapped, mapped_job.request)
    assert ElementRow("TaskGroup[1]/Task[2]/Node[1]", {}, "wn2") in rows
    (restored,) = whole_jobs(job_document({"pandaid": 5, "jobstatus": "failed"}, rows))
    assert [task.text("Node") for task in restored.job.of_level("TaskGroup")[0].of_level("Task")] == ["wn1", "wn2"]


def test_a_block_that_the_columns_cannot_hold_is_stored_whole() -> None:
    whole = job_with(
        "<Requested><Processors>8</Processors><Swap units='MB'>5</Swap><Feature>f</Feature></Requested>"
        "<Delivered><Processors>7</Processors><Disk units='MB'>3</Disk></Delivered>"
    )
    mapped_job = map_job(whole)
    row = {"pandaid": 5, "jobstatus": "finished", "corecount": 8, "actualcorecount": 7}
    (restored,) = whole_jobs(job_document(row, unmapped_rows(whole.job, mapped_job.unmapped, mapped_job.request)))
    for block, expected in (
        (restored.job.requested, whole.job.requested),
        (restored.job.delivered, whole.job.delivered),
    ):
        assert block is not None
        assert expected is not None
        assert [(entry.name, entry.value) for entry in block.properties] == [
            (entry.name, entry.value) for entry in expected.properties
        ]


@pytest.mark.parametrize("paths", [["x"], ["A[1]/B[1]"], ["A[0]"], ["A[1]", "A[1]/B[1]/C[1]"], ["A[1]x"]])
def test_inconsistent_rows_are_refused(paths: list[str]) -> None:
    with pytest.raises(ValueError, match="kept path"):
        elements_of([ElementRow(path, {}, "") for path in paths])


def test_a_task_with_its_jobs() -> None:
    task = {"jeditaskid": 9, "status": "scouting", "taskname": "t", "username": "u", "taskpriority": 5,
            "creationdate": datetime(2020, 9, 13, 12, 26, 40), "endtime": datetime(1970, 1, 1)}  # fmt: skip  # noqa: DTZ001
    document_of_task = task_document(
        task, [({"pandaid": 1, "jobstatus": "sent"}, ()), ({"pandaid": 2, "jobstatus": "failed"}, ())]
    )
    group = document_of_task.group
    assert group is not None
    assert (group.text("JobGroupId"), group.text("JobGroupState"), group.integer("CreationTime")) == (
        "9",
        "Active",
        1600000000,
    )
    assert group.extension("PandaTaskStatus") == "scouting"
    assert not group.has("EndTime")  # 1 January 1970 means that it is not set
    assert [job.text("JobState") for job in document_of_task.jobs] == ["Idle", "Completed"]
    with pytest.raises(ValueError, match="without jobs"):
        task_document(task, [])


PATHS = {
    "/Job/JobId": ["farm.82.0"],
    "JobName": ["Alignment"],
    "//Processors": ["12", "16"],
    "/Job/Requested/Memory/@units": ["GB"],
    "/Job/Delivered/Memory[2]": ["1.25"],
    "/Job/Delivered/Memory[@metric='max']": ["1.5"],
    "/Job/Environment/Variable[@name='THREADS']": ["16"],
    "/Job[JobId='farm.82.0']/UserId": ["asta"],
    "/Job[JobId='other']/UserId": [],
    "/Job/*/WallDuration": ["5400", "3600"],
    "//@units": ["EUR", "GB", "GB", "GB"],
    "/Job/Requested": [],
    "/JobGroup/JobGroupId": [],
}


@pytest.mark.parametrize("path", PATHS)
def test_single_properties_are_found(path: str) -> None:
    assert get(read_xml(data("delivered")), path) == PATHS[path]


@pytest.mark.parametrize(
    "path",
    ["", "/", "/Job[position()>1]", "/Job/text()", "document('x')", "/Job | /Job", "/Job[JobId=\"a']", "/@a/b", "/Job" * 13,  # noqa: E501
     "/" + "a" * 600, "/Job[0]", "../Job", "/Job[JobId='a' or '1'='1']"],
)  # fmt: skip
def test_anything_but_a_simple_path_is_refused(path: str) -> None:
    with pytest.raises(BadPathError):
        get(read_xml(data("delivered")), path)


def test_a_job_with_a_diagnostic_and_without_times() -> None:
    document_of_job = job_document(
        {"pandaid": 1, "jobstatus": "failed", "exeerrordiag": "bad\x07 luck", "transexitcode": "65"}
    )
    assert (document_of_job.root.text("StatusMessage"), document_of_job.root.integer("ExitCode")) == ("bad luck", 65)
    assert job_with("<JobName>x</JobName>").job.text("JobName") == "x"
