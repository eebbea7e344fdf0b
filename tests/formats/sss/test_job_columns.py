from __future__ import annotations

import pytest

from broker.formats.model.sss.inheritance import whole_jobs
from broker.formats.model.sss.job_columns import MappedJob, MappingRules, map_job
from broker.formats.model.sss.reading import read_document
from broker.formats.model.sss.states import JOB_STATE_OF, group_state_of, job_state_of, job_status_of, task_status_of
from broker.formats.model.sss.task_columns import map_task
from tests.formats.sss.documents import document, job_with


def mapped_jobs(name: str, rules: MappingRules | None = None) -> list[MappedJob]:
    return [map_job(whole, rules) for whole in whole_jobs(document(name))]


def test_a_waiting_job() -> None:
    (job,) = mapped_jobs("simple")
    assert job.columns == {
        "jobStatus": "activated",
        "prodUserName": "asta",
        "transformation": "/opt/sim/run",
        "jobParameters": '--seed 5 --out "a b"',
        "coreCount": 8,
        "maxWalltime": 7200,
    }
    assert job.unmapped == ()


def test_a_finished_job() -> None:
    (job,) = mapped_jobs("delivered")
    assert job.columns == {
        "jobStatus": "finished", "jobName": "Alignment", "workingGroup": "align", "prodUserName": "asta",
        "homepackage": "sim", "transformation": "/opt/sim/align", "computingElement": "farm",
        "computingSite": "long", "gshare": "gold", "creationTime": "2020-09-13 12:26:40",
        "startTime": "2020-09-13 13:26:40", "endTime": "2020-09-13 14:26:40", "coreCount": 12, "minRamCount": 2048,
        "minRamUnit": "MB", "maxWalltime": 5400, "maxRSS": 1_572_864, "avgRSS": 1_310_720, "actualCoreCount": 16,
        "cpuConsumptionTime": 28_800,
    }  # fmt: skip
    assert job.unmapped == ("InitialWorkingDirectory", "Charge", "Environment")
    assert "no exit code: finished is assumed and flagged" in job.notes


@pytest.mark.parametrize(
    ("inside", "cores"),
    [
        ("<Processors>64</Processors><Processors conj='or'>48</Processors>", 48),
        ("<Processors>48</Processors><Processors conj='or'>64</Processors>", 48),
        ("<Processors op='ge'>32</Processors><Processors conj='or' op='gt'>7</Processors>", 8),
    ],
)
def test_the_column_holds_the_fewest_accepted_cores(inside: str, cores: int) -> None:
    job = map_job(job_with(f"<Requested>{inside}</Requested>"))
    assert job.columns is not None
    assert job.columns["coreCount"] == cores


def test_unmapped_properties_of_a_block_are_reported() -> None:
    inside = (
        "<Requested><Swap units='MB'>5</Swap><Memory units='MB'>5</Memory><Feature>f</Feature><Odd/></Requested>"
        "<Delivered><Disk units='MB'>3</Disk><Memory units='MB'>1</Memory><Processors>2</Processors></Delivered>"
    )
    assert map_job(job_with(inside)).unmapped == ("Swap", "Feature", "Odd", "Disk", "Memory")
    mappable = "<Delivered><Memory metric='max' units='MB'>1</Memory><WallDuration>5</WallDuration></Delivered>"
    assert map_job(job_with(mappable)).unmapped == ()


def test_names_are_translated_by_the_mapping_rules() -> None:
    rules = MappingRules(shares={"gold": "Express"}, queues={"long": "SITE_LONG"})
    (job,) = mapped_jobs("delivered", rules)
    assert job.columns is not None
    assert (job.columns["gshare"], job.columns["computingSite"]) == ("Express", "SITE_LONG")


def test_an_own_export_keeps_its_number_and_exact_status() -> None:
    (job,) = mapped_jobs("exported")
    assert job.columns is not None
    assert (job.columns["PandaID"], job.columns["jobStatus"], job.columns["jediTaskID"]) == (7001, "holding", 12)
    assert job.columns["gshare"] == "User Analysis"
    assert job.unmapped == ("awarenessPolicy", "Extension Weather")


def test_each_task_group_of_a_job_becomes_a_job() -> None:
    first, second = mapped_jobs("group")
    assert first.columns is not None
    assert first.columns["jobStatus"] == "failed"
    assert (first.columns["transExitCode"], first.columns["supErrorDiag"]) == ("3", "out of disk")
    assert (second.columns, second.refused) == (None, "multi-task-group")
    assert [part.columns for part in second.parts] == [
        {"jobStatus": "pending", "workingGroup": "survey", "prodUserName": "asta", "prodUserID": "C=XX,CN=Asta Berg",
         "transformation": "/opt/stage", "creationHost": "login.example.org", **request}
        for request in (
            {"minRamCount": 4096, "minRamUnit": "MB", "maxWalltime": 3600},
            {"coreCount": 12, "minRamCount": 1000, "minRamUnit": "MB", "maxWalltime": 3600},
        )
    ]  # fmt: skip
    assert "an import makes 2 jobs of it, one for each task group, and nothing starts them together" in second.notes


def test_delivered_resources_are_assigned_to_one_part_only() -> None:
    inside = (
        "<Delivered><Processors>6</Processors></Delivered><TaskGroup/><TaskGroup/>"
        "<TaskGroup><Delivered><Processors>4</Processors></Delivered></TaskGroup>"
    )
    parts = map_job(job_with(inside, "Completed")).parts
    assert [(part.columns or {}).get("actualCoreCount") for part in parts] == [6, None, 4]


@pytest.mark.parametrize(
    ("inside", "unmapped"),
    [
        ("<StatusMessage>no funds</StatusMessage>", ("StatusMessage",)),
        ("<StatusMessage>fine</StatusMessage><ExitCode>0</ExitCode>", ("StatusMessage",)),
        ("<StatusMessage>out of disk</StatusMessage><ExitCode>3</ExitCode>", ()),
        ("<Restartable>true</Restartable><StartCount>2</StartCount>", ("Restartable", "StartCount")),
        ("<QualityOfService>gold</QualityOfService>", ()),
        ("<Requested><Processors dynamic='true'>2</Processors></Requested>", ("Processors@dynamic",)),
        ("<Processors shade='dark' op='ge'>2</Processors>", ("Processors@shade",)),
        ("<TaskGroup><Odd/><Delivered><Disk units='B'>1</Disk></Delivered></TaskGroup>", ("Disk", "Odd")),
        (
            "<Delivered><Processors>1</Processors></Delivered>"
            "<TaskGroup><Delivered><Processors>1</Processors></Delivered></TaskGroup>",
            ("Delivered",),
        ),
    ],
)
def test_unmapped_properties_are_reported(inside: str, unmapped: tuple[str, ...]) -> None:
    assert map_job(job_with(inside, "Completed")).unmapped == unmapped


def test_unmapped_properties_of_a_group_are_reported() -> None:
    text = b"""<JobGroup awarenessPolicy="Ignore"><JobGroupId>g</JobGroupId><Description>why</Description><Colour/>
    <NodeProperties><Feature>f</Feature></NodeProperties><Environment><Variable name="A">1</Variable></Environment>
    <Job><JobId>j</JobId></Job><Job>elsewhere</Job></JobGroup>"""
    task = map_task(read_document(text), [])
    assert task is not None
    assert task.unmapped == (
        "awarenessPolicy", "Description", "NodeProperties", "Environment", "Job (a reference)", "Colour",
    )  # fmt: skip


def test_a_group_becomes_a_task() -> None:
    task = map_task(document("group"), mapped_jobs("group"))
    assert task is not None
    assert task.columns == {
        "taskName": "Survey", "status": "running", "userName": "asta", "workingGroup": "survey", "ramCount": 1000,
        "ramUnit": "MB", "walltime": 3600, "walltimeUnit": "s",
    }  # fmt: skip
    assert map_task(document("simple"), mapped_jobs("simple")) is None


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        (f"<ProjectId>{'p' * 21}</ProjectId>", "too-wide"),
        (f"<Executable>{'x' * 251}</Executable>", "too-wide"),
        ("<Priority>4294967296</Priority>", "out-of-range"),
        ('<Extension name="NEvents">many</Extension>', "not-a-number"),
        ("<Requested><Processors>1000</Processors></Requested>", "too-many-cores"),
    ],
)
def test_values_that_do_not_fit_are_refused_and_never_truncated(inside: str, reason: str) -> None:
    job = map_job(job_with(inside))
    assert (job.columns, job.refused) == (None, reason)


def test_the_longest_text_that_fits_is_accepted() -> None:
    job = map_job(job_with(f"<ProjectId>{'p' * 20}</ProjectId>"))
    assert job.columns is not None and job.columns["workingGroup"] == "p" * 20


def test_the_node_of_a_running_job() -> None:
    inside = "<TaskGroup><Task><Node>wn7</Node></Task></TaskGroup>"
    running_job, finished_job = map_job(job_with(inside, "Running")), map_job(job_with(inside, "Completed"))
    assert running_job.columns is not None and running_job.columns["modificationHost"] == "wn7"
    assert finished_job.columns is not None and "modificationHost" not in finished_job.columns


@pytest.mark.parametrize(
    ("state", "code", "is_held", "status"),
    [
        ("Idle", None, False, "activated"), ("Idle", None, True, "pending"), ("Hold", None, False, "pending"),
        ("Running", None, False, "running"), ("Suspended", None, False, "running"), (None, None, False, "activated"),
        ("Completed", None, False, "finished"), ("Completed", 0, False, "finished"), ("Completed", 1, False, "failed"),
    ],
)  # fmt: skip
def test_states_of_jobs(state: str | None, code: int | None, is_held: bool, status: str) -> None:
    assert job_status_of(state, code, held=is_held) == status


def test_every_status_maps_to_a_state_and_back_to_a_status_of_that_state() -> None:
    for status, state in JOB_STATE_OF.items():
        assert job_state_of(job_status_of(state, 1 if status == "failed" else None, held=False)) == state
    assert job_state_of("nonsense") == "Idle"


@pytest.mark.parametrize(
    ("state", "jobs", "status"),
    [
        ("NotQueued", [], "registered"), ("Unstarted", [], "ready"), ("Active", [], "running"),
        ("Completed", ["finished", "finished"], "done"), ("Completed", ["failed", "finished"], "finished"),
        ("Completed", ["failed"], "failed"), (None, [], "registered"),
    ],
)  # fmt: skip
def test_states_of_tasks(state: str | None, jobs: list[str], status: str) -> None:
    assert task_status_of(state, jobs) == status
    if state is not None:
        assert group_state_of(status) == state
