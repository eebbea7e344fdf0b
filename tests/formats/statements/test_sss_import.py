from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from broker.errors import Refused
from broker.formats.model.sss.exported import Naming
from broker.formats.model.sss.model import JobLevel
from broker.formats.model.sss.reading import document_of, read_document
from broker.formats.model.sss.submission import SubmissionRules, plan
from broker.formats.statements import sss_rows
from broker.formats.statements.sss_exchange import AlreadyThere, NotOurTables, NotThere, export_job, export_task
from broker.store.connection.database import Database
from broker.store.reads import task_alternatives
from broker.store.schema import migrate
from broker.tasks.statements import task_rows as sss_submissions
from tests.formats.sss.documents import document
from tests.formats.statements.imported import import_into, rows

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
TWO_JOBS = b"""<JobGroup><JobGroupId>g1</JobGroupId><JobGroupName>Pair</JobGroupName>
<JobGroupState>Active</JobGroupState>
<JobDefaults><UserId>asta</UserId><Executable>/bin/x</Executable></JobDefaults>
<Job><JobId>a</JobId><JobState>Running</JobState><StartTime>1600003600</StartTime></Job>
<Job><JobId>b</JobId><JobState>Idle</JobState><Arguments>-v</Arguments>
<Requested><Processors>12</Processors><Processors conj="or">16</Processors></Requested></Job></JobGroup>"""


def exported_job(database: Database, pandaid: int, instance: str = "") -> JobLevel:
    return document_of(export_job(database, pandaid, Naming(instance))).root


def test_a_finished_job_is_archived_and_its_unmapped_properties_are_stored(database: Database) -> None:
    (job,) = import_into(database, document("delivered")).jobs
    assert (job.job_id, job.table, job.unmapped) == (
        "farm.82.0", "jobsarchived4", ("InitialWorkingDirectory", "Charge", "Environment"),
    )  # fmt: skip
    assert rows(
        database,
        "SELECT jobstatus, produsername, transformation, corecount, maxrss, cpuconsumptiontime::int, starttime,"
        f" jeditaskid FROM doma_panda.jobsarchived4 WHERE pandaid = {job.pandaid}",
    ) == [("finished", "asta", "/opt/sim/align", 12, 1_572_864, 28_800, datetime(2020, 9, 13, 13, 26, 40), None)]  # noqa: DTZ001
    with database.read_snapshot() as connection:
        (identity,) = sss_rows.identities(connection, "job", job.pandaid)
    assert identity.job_id == "farm.82.0"


def test_an_exported_job_equals_the_import_except_for_its_number(database: Database) -> None:
    (job,) = import_into(database, document("delivered")).jobs
    level = exported_job(database, job.pandaid, "here")
    assert level.text("JobId") == str(job.pandaid)
    assert level.text("GlobalJobId") == f"panda://here/{job.pandaid}"
    assert level.environment == {"PATH": "/usr/bin:~/bin:", "THREADS": "16"}
    assert level.text("Charge") == "12.75"
    assert level.requested is not None and level.requested.all_of("Processors")[0].attributes["op"] == "GE"


def test_a_group_becomes_a_task_with_its_jobs(database: Database) -> None:
    result = import_into(database, read_document(TWO_JOBS))
    assert result.jeditaskid is not None
    assert [job.table for job in result.jobs] == ["jobsactive4", "jobsactive4"]
    assert rows(database, "SELECT jeditaskid, taskname, status, username FROM doma_panda.jedi_tasks") == [
        (result.jeditaskid, "Pair", "running", "asta")
    ]
    group = document_of(export_task(database, result.jeditaskid))
    assert [job.text("JobState") for job in group.jobs] == ["Running", "Idle"]
    assert group.jobs[1].text("Arguments") == "-v"
    assert [job.extension("JediTaskID") for job in group.jobs] == [str(result.jeditaskid)] * 2
    assert len(group.jobs[1].requested.properties) == 2  # type: ignore[union-attr]


def test_the_submit_host_of_a_job_is_stored_in_the_column_of_panda(database: Database) -> None:
    text = TWO_JOBS.replace(b"<Arguments>-v", b"<SubmitHost>login.example.org</SubmitHost><Arguments>-v")
    pandaid = import_into(database, read_document(text)).jobs[1].pandaid
    hosts = rows(database, f"SELECT creationhost FROM doma_panda.jobsactive4 WHERE pandaid = {pandaid}")
    assert hosts == [("login.example.org",)]
    assert exported_job(database, pandaid).text("SubmitHost") == "login.example.org"


def test_a_document_with_an_invalid_job_writes_nothing(database: Database) -> None:
    text = TWO_JOBS.replace(b"<Arguments>-v", b"<ProjectId>a project of too many letters</ProjectId><Arguments>-v")
    with pytest.raises(Refused, match="too-wide"):
        import_into(database, read_document(text))
    assert rows(database, "SELECT count(*) FROM doma_panda.jedi_tasks") == [(0,)]
    assert rows(database, "SELECT count(*) FROM doma_panda.jobsarchived4") == [(0,)]
    assert rows(database, "SELECT count(*) FROM broker.sss_property") == [(0,)]


def test_an_own_export_keeps_its_number_on_the_first_import(database: Database) -> None:
    (job,) = import_into(database, document("exported"), same_instance=True).jobs
    assert job.pandaid == 7001
    with pytest.raises(AlreadyThere):
        import_into(database, document("exported"), same_instance=True)
    (copy,) = import_into(database, document("exported")).jobs
    assert copy.pandaid > 7001  # numbers assigned later do not collide with it
    level = exported_job(database, 7001)
    assert (level.extension("PandaJobStatus"), level.extension("Weather")) == ("holding", "fine")
    assert len(level.all_of("Extension")) == 4


def test_a_missing_job_or_task_cannot_be_exported(database: Database) -> None:
    with pytest.raises(NotThere):
        export_job(database, 1)
    with pytest.raises(NotThere):
        export_task(database, 1)


def submit_document(database: Database, text: bytes, **changes: Any) -> list[sss_submissions.InsertedTask]:
    plans = plan(read_document(text), SubmissionRules(**changes))
    return list(sss_submissions.submit(database, [sss_submissions.Submission(task_plan) for task_plan in plans], NOW))


WAITING = TWO_JOBS.replace(b"<JobState>Running</JobState><StartTime>1600003600</StartTime>", b"")


def test_submitted_jobs_are_files_of_a_pseudo_input(database: Database) -> None:
    first, second = submit_document(database, WAITING, nucleus="N")
    assert (first.job_ids, second.job_ids, second.alternatives) == (("a",), ("b",), 2)
    assert first.jeditaskid != second.jeditaskid
    assert rows(
        database,
        "SELECT t.jeditaskid, t.status, t.nucleus, d.type, d.nfilestobeused, d.nfilesused, f.status, f.nevents"
        " FROM doma_panda.jedi_tasks t JOIN doma_panda.jedi_datasets d USING (jeditaskid)"
        " JOIN doma_panda.jedi_dataset_contents f USING (jeditaskid, datasetid) ORDER BY 1",
    ) == [
        (first.jeditaskid, "ready", "N", "pseudo_input", 1, 0, "ready", 1),
        (second.jeditaskid, "ready", "N", "pseudo_input", 1, 0, "ready", 1),
    ]
    with database.read_snapshot() as connection:
        ways = task_alternatives.read(connection, [first.jeditaskid, second.jeditaskid])
        (identity,) = sss_rows.identities(connection, "task", second.jeditaskid)
        properties = sss_rows.properties(connection, "task", second.jeditaskid, "b")
    assert [str(way.accepted_cores) for way in ways[second.jeditaskid]] == ["12", "16"]
    assert (identity.job_id, identity.group_id) == ("b", "g1")
    assert identity.fileid is not None
    assert "Requested[1]/Processors[2]" in [row.path for row in properties]


def test_two_submissions_get_different_numbers(database: Database) -> None:
    first = submit_document(database, WAITING)
    second = submit_document(database, WAITING)
    assert len({task.jeditaskid for task in (*first, *second)}) == 4


def test_nothing_is_written_beside_panda(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "check", lambda database: migrate.BESIDE)
    with pytest.raises(NotOurTables):
        submit_document(database, WAITING)
    with pytest.raises(NotOurTables):
        import_into(database, document("simple"))
