"""An imported SSS Job Object is exported unchanged, except for what has changed in the database since."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from broker.formats.model.sss.exported import Naming
from broker.formats.model.sss.reading import document_of, read_document
from broker.formats.model.sss.writing import write_element
from broker.formats.model.sss.xml_reading import Element, read_xml
from broker.formats.statements.sss_exchange import export_job, export_task
from broker.store.connection.database import Database
from tests.formats.sss.documents import content, data
from tests.formats.statements.imported import import_into, rows

ORIGINAL_NAMES = Naming(original=True)
OWN = {("JobId", ""), ("JobGroupId", ""), ("Extension", "PandaJobStatus"), ("Extension", "PandaTaskStatus"),
       ("Extension", "JediTaskID")}  # fmt: skip


def job(inside: str, attributes: str = "") -> str:
    return f"<Job{attributes}><JobId>farm.1</JobId>{inside}</Job>"


def group(inside: str, *jobs: str, attributes: str = "") -> str:
    return f"<JobGroup{attributes}><JobGroupId>farm.g</JobGroupId>{inside}{''.join(jobs)}</JobGroup>"


MASTER = (
    "<TaskGroup><TaskGroupName>Master</TaskGroupName><TaskCount>1</TaskCount><Executable>/opt/a</Executable>"
    "</TaskGroup>"
)
SLAVE = (
    '<TaskGroup><TaskGroupName>Slave</TaskGroupName><TaskDistribution type="Rule">RoundRobin</TaskDistribution>'
    "<Executable>/opt/b</Executable><NodeCount>4</NodeCount><Requested><Processors group='-1'>12</Processors>"
    "<Processors conj='or' group='1'>16</Processors><Memory>512</Memory>"
    "<NodeProperties><Name op='match'>fr15n.*</Name></NodeProperties></Requested></TaskGroup>"
)
DOCUMENTS: dict[str, str] = {
    **{name: data(name).decode() for name in ("simple", "delivered", "exported", "group")},
    "a message of a job that waits": job(
        "<JobState>Idle</JobState><Hold>System</Hold><StatusMessage>no funds</StatusMessage>"
    ),
    "a message of a job that failed": job(
        "<JobState>Completed</JobState><ExitCode>3</ExitCode><StatusMessage>out of disk</StatusMessage>"
    ),
    "restarts and policy": job(
        "<Restartable>false</Restartable><StartCount>2</StartCount><Suspendable>true</Suspendable>",
        ' awarenessPolicy="Ignore"',
    ),
    "another name of the exit code": job("<JobState>Completed</JobState><CompletionCode>0</CompletionCode>"),
    "states that the columns do not have": job("<JobState>Suspended</JobState>"),
    "a state on hold": job("<JobState>hold</JobState><Hold>user</Hold>"),
    "quality of service": job("<QualityOfService>BottomFeeder</QualityOfService>"),
    "many digits": job(
        '<Charge units="USD">123456789.125</Charge><Delivered><Memory units="GB">1.890</Memory></Delivered>'
    ),
    "all that was delivered": job(
        "<Delivered><Processors consumptionRate='0.78' dynamic='true'>2</Processors>"
        "<Memory metric='max'>975</Memory><Memory metric='Minimum'>1</Memory><Memory metric='total'>7</Memory>"
        "<Memory>3</Memory><Swap metric='Average' units='KB'>5</Swap><Disk units='GB'>1</Disk></Delivered>"
    ),
    "conditions outside a block": job(
        "<Processors op='ge' preference='2'>4</Processors><Processors conj='and' op='le'>8</Processors>"
        "<NodeCount>2</NodeCount>"
    ),
    "attributes and elements that nobody knows": job(
        "<Requested colour='red'><Processors shade='dark'>4</Processors><Odd><Inner deep='1'>x</Inner></Odd>"
        "<NodeProperties mind='me'><Feature>f</Feature></NodeProperties></Requested>"
        "<Environment kind='e'><Variable name='A' secret='no'>1</Variable><Variable name='B'/></Environment><Colour/>",
        ' flavour="up"',
    ),
    "text": job("<Arguments>a &lt;b&gt;\n\tc</Arguments><JobName>Schl\u00fcssel &amp; &#x1F511;</JobName>"),
    "names from elsewhere": job("<GlobalJobId>urn:x:1</GlobalJobId><QuoteId>http://quotes/1#2</QuoteId>"),
    "dependencies and limits": job(
        "<Dependency condition='onfailure' designator='JobName'>first</Dependency>"
        "<ResourceLimit name='nofile' type='Hard'>1024</ResourceLimit>"
        "<Resource name='License' type='ESSL2'>1</Resource>"
        "<NotificationList type='mail' uri='mailto:a@b'>end</NotificationList>"
    ),
    "task group with everything": job(
        "<TaskGroupDefaults><Executable>/opt/x</Executable></TaskGroupDefaults><TaskGroup><TaskGroupId>t</TaskGroupId>"
        "<Delivered><Processors>3</Processors></Delivered><TaskDefaults><SessionId>s</SessionId></TaskDefaults>"
        "<Task><Node>n1</Node><ProcessId>7</ProcessId></Task><Task/></TaskGroup>"
    ),
    "a group with more than a task has": group(
        "<JobGroupName>G</JobGroupName><JobGroupState>Active</JobGroupState><CreationTime>1600000000</CreationTime>"
        "<Description>what for</Description><Colour>red</Colour><StatusMessage>so far so good</StatusMessage>"
        "<NodeProperties><Feature>f</Feature></NodeProperties>"
        "<Environment><Variable name='G'>1</Variable></Environment>"
        "<JobDefaults><StagedTime>1600000100</StagedTime><UserId>asta</UserId><QualityOfService>gold</QualityOfService>"
        "<Priority>7</Priority><Requested><Memory units='GB'>2</Memory><CpuDuration>60</CpuDuration></Requested>"
        "</JobDefaults>",
        job("<Queue/><Executable>/bin/x</Executable>"),
        "<Job>elsewhere.7</Job>",
        attributes=' awarenessPolicy="Ignore"',
    ),
    "several task groups": group(
        "", job("<JobState>Idle</JobState><Hold>System</Hold>" + MASTER + SLAVE), job(SLAVE).replace("farm.1", "farm.2")
    ),
}


def import_and_export(database: Database, text: str, naming: Naming) -> Element:
    result = import_into(database, read_document(text.encode()))
    element = (
        export_job(database, result.jobs[0].pandaid, naming)
        if result.jeditaskid is None
        else export_task(database, result.jeditaskid, naming)
    )
    return read_xml(write_element(element))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_an_export_equals_the_import(database: Database, name: str) -> None:
    text = DOCUMENTS[name]
    assert content(import_and_export(database, text, ORIGINAL_NAMES)) == content(read_xml(text.encode()))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_an_export_with_own_names_equals_the_import_otherwise(database: Database, name: str) -> None:
    text = DOCUMENTS[name]
    element = import_and_export(database, text, Naming())
    assert content(element, without=OWN) == content(read_xml(text.encode()), without=OWN)
    read_document(write_element(element))


def test_an_exported_job_of_a_group_has_its_inherited_values(database: Database) -> None:
    result = import_into(database, read_document(DOCUMENTS["a group with more than a task has"].encode()))
    level = document_of(export_job(database, result.jobs[0].pandaid)).root
    assert (level.text("UserId"), level.text("Executable"), level.text("QualityOfService")) == (
        "asta",
        "/bin/x",
        "gold",
    )
    assert level.requested is not None and level.requested.all_of("CpuDuration")[0].value == 60


def test_each_task_group_becomes_a_job_and_is_exported_as_a_group_again(database: Database) -> None:
    text = DOCUMENTS["several task groups"]
    result = import_into(database, read_document(text.encode()))
    assert [job.job_id for job in result.jobs] == ["farm.1", "farm.1", "farm.2"]
    statement = "SELECT pandaid, jobstatus, transformation, corecount, jeditaskid FROM doma_panda."
    job_rows = rows(database, f"{statement}jobsdefined4") + rows(database, f"{statement}jobsactive4")
    task = result.jeditaskid
    assert sorted(job_rows) == [
        (result.jobs[0].pandaid, "pending", "/opt/a", None, task),
        (result.jobs[1].pandaid, "pending", "/opt/b", 12, task),
        (result.jobs[2].pandaid, "activated", "/opt/b", 12, task),
    ]
    for number in (result.jobs[0].pandaid, result.jobs[1].pandaid):
        assert content(export_job(database, number, ORIGINAL_NAMES)) == content(read_xml(text.encode()).children[1])


def update_job(database: Database, pandaid: int, **columns: Any) -> None:
    settings = ", ".join(f"{name} = :{name}" for name in columns)
    with database.begin() as connection:
        for table in ("jobsdefined4", "jobsactive4", "jobsarchived4"):
            connection.execute(
                sa.text(f"UPDATE doma_panda.{table} SET {settings} WHERE pandaid = :pandaid"),
                {**columns, "pandaid": pandaid},
            )


def test_values_changed_since_the_import_are_exported_as_they_are_now(database: Database) -> None:
    text = group(
        "<JobDefaults><Queue>long</Queue><UserId>asta</UserId></JobDefaults>",
        job("<JobState>Suspended</JobState><Processors>8</Processors><StatusMessage>sleeps</StatusMessage>"),
    )
    result = import_into(database, read_document(text.encode()))
    number = result.jobs[0].pandaid
    update_job(database, number, jobstatus="failed", computingsite="SITE_B", corecount=16, exeerrordiag="bad luck",
            produsername=None)  # fmt: skip
    (level,) = document_of(export_task(database, result.jeditaskid or 0)).jobs
    assert (level.text("JobState"), level.text("Queue"), level.text("StatusMessage")) == (
        "Completed",
        "SITE_B",
        "bad luck",
    )
    assert level.extension("PandaJobStatus") == "failed"
    assert not level.has("Processors")
    assert level.requested is not None and level.requested.all_of("Processors")[0].value == 16
    assert level.has("UserId") and level.text("UserId") is None  # no user now, and no longer inherited
    assert export_task(database, result.jeditaskid or 0, ORIGINAL_NAMES).children[0].text == "farm.g"


def test_changes_of_a_task_group_are_exported_in_that_group(database: Database) -> None:
    result = import_into(database, read_document(DOCUMENTS["several task groups"].encode()))
    update_job(database, result.jobs[1].pandaid, jobstatus="running", corecount=16, computingsite="SITE_B")
    first, _ = document_of(export_task(database, result.jeditaskid or 0)).jobs
    master, slave = first.of_level("TaskGroup")
    assert (first.text("JobState"), first.text("Queue"), slave.text("Queue"), master.has("Queue")) == (
        "Running", None, "SITE_B", False,
    )  # fmt: skip
    assert slave.requested is not None
    assert [processors.value for processors in slave.requested.all_of("Processors")] == [16]


def test_an_import_of_an_earlier_release_is_exported_from_its_columns(database: Database) -> None:
    result = import_into(database, read_document(DOCUMENTS["delivered"].encode()))
    number = result.jobs[0].pandaid
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.sss_identity SET written = NULL"))
        connection.execute(sa.text("DELETE FROM broker.sss_property WHERE path NOT LIKE 'Job[1]/Charge%'"))
        connection.execute(sa.text("UPDATE broker.sss_property SET path = 'Charge[1]'"))
    level = document_of(export_job(database, number)).root
    assert (level.text("JobId"), level.text("Charge"), level.text("Queue")) == (str(number), "12.75", "long")
    assert (level.text("QualityOfService"), level.extension("GlobalShare")) == ("gold", "gold")


def test_an_own_export_of_a_task_is_reimported_unchanged(database: Database) -> None:
    first_import = import_into(database, read_document(DOCUMENTS["several task groups"].encode()))
    xml = write_element(export_task(database, first_import.jeditaskid or 0))
    second_import = import_into(database, read_document(xml))
    assert content(export_task(database, second_import.jeditaskid or 0, ORIGINAL_NAMES), without=OWN) == content(
        read_xml(xml), without=OWN
    )
