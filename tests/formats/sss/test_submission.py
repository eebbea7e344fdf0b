from __future__ import annotations

import dataclasses

import pytest

from broker.domain.work import WayToRun
from broker.formats.model.sss.reading import read_document
from broker.formats.model.sss.submission import CannotSubmitError, SubmissionRules, TaskPlan, plan
from tests.formats.sss.documents import data

RULES = SubmissionRules(queues=frozenset({"SITE_A"}))


def plan_document(text: str | bytes, rules: SubmissionRules = RULES) -> tuple[TaskPlan, ...]:
    return plan(read_document(text.encode() if isinstance(text, str) else text), rules)


def job(inside: str = "", job_id: str = "j") -> str:
    return f"<Job><JobId>{job_id}</JobId><Executable>/bin/x</Executable>{inside}</Job>"


def group(*jobs: str) -> str:
    return f"<JobGroup><JobGroupId>g</JobGroupId><JobGroupName>Many</JobGroupName>{''.join(jobs)}</JobGroup>"


def test_a_job_becomes_a_task_with_one_file() -> None:
    (task,) = plan_document(data("simple"))
    assert task.columns == {
        "taskname": "farm.81.0", "status": "assigning", "superstatus": "submitted", "prodsourcelabel": "managed",
        "vo": "atlas", "cloud": "WORLD", "tasktype": "prod", "splitrule": "NF=1", "processingtype": "sss",
        "currentpriority": 500, "taskpriority": 500, "username": "asta", "transpath": "/opt/sim/run", "corecount": 8,
        "cputime": 1, "cputimeunit": "HS06sPerEvent", "cpuefficiency": 0, "basewalltime": 7200,
    }  # fmt: skip
    (file,) = task.files
    assert (file.job_id, file.arguments) == ("farm.81.0", '--seed 5 --out "a b"')
    assert task.alternatives == (WayToRun(8, 8, (), None, None, 7200),)
    assert task.parameters["nFiles"] == 1


def test_only_equal_jobs_share_a_task() -> None:
    text = group(
        job("<Arguments>1</Arguments>", "a"),
        job("<Arguments>2</Arguments>", "b"),
        job("<Requested><Memory units='GB'>4</Memory></Requested>", "c"),
        job("<Priority>900</Priority>", "d"),
        job("<Hold>User</Hold>", "e"),
    )
    tasks = plan_document(text)
    assert [[file.job_id for file in task.files] for task in tasks] == [["a", "b"], ["c"], ["d"], ["e"]]
    assert [task.columns["taskname"] for task in tasks] == ["Many.1", "Many.2", "Many.3", "Many.4"]
    assert [task.columns["status"] for task in tasks] == ["assigning", "assigning", "assigning", "paused"]
    assert tasks[1].columns["ramcount"] == 4552  # x 0.9, whole MB: 4096
    assert tasks[2].columns["currentpriority"] == 900
    assert tasks[0].group_id == "g"


def test_alternatives_are_kept_in_order() -> None:
    (task,) = plan_document(
        job('<Requested><Processors>12</Processors><Processors conj="or">16</Processors></Requested>')
    )
    assert [way.accepted_cores and str(way.accepted_cores) for way in task.alternatives] == ["12", "16"]
    assert task.columns["corecount"] == 12
    (plain,) = plan_document(job("<Requested><Memory units='GB'>4</Memory></Requested>"))
    assert plain.alternatives == ()


@pytest.mark.parametrize(("queue", "site"), [("SITE_A", "SITE_A"), ("elsewhere", None)])
def test_only_a_queue_that_exists_is_pre_assigned(queue: str, site: str | None) -> None:
    (task,) = plan_document(job(f"<Queue>{queue}</Queue>"))
    assert task.columns.get("site") == site
    assert any("is no queue here" in note for note in task.notes) is (site is None)


def test_a_task_with_a_nucleus_is_ready() -> None:
    (task,) = plan_document(job(), dataclasses.replace(RULES, nucleus="CERN"))
    assert (task.columns["status"], task.columns["nucleus"]) == ("ready", "CERN")


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        ("<JobState>Running</JobState>", "already-started"),
        ("<JobState>Completed</JobState>", "already-started"),
        ("<Dependency>other</Dependency>", "dependency"),
        ("<UserId>eve</UserId>", "wrong-user"),
        ("<NodeProperties><Feature>x</Feature></NodeProperties>", "node-request"),
        ("<Resource name='License'>1</Resource>", "node-request"),
        ("<NodeCount>2</NodeCount>", "node-request"),
        ("<Feature>x</Feature>", "node-request"),
        ("<Requested><Feature>x</Feature></Requested>", "node-request"),
        ("<Requested><NodeProperties><Name>x</Name></NodeProperties></Requested>", "node-request"),
        (f"<ProjectId>{'p' * 33}</ProjectId>", "too-wide"),
        (f"<Executable/><TaskGroup><Executable>{'x' * 129}</Executable></TaskGroup>", "too-wide"),
        ("<TaskGroup/><TaskGroup/>", "multi-task-group"),
    ],
)
def test_requests_that_cannot_be_honoured_are_refused(inside: str, reason: str) -> None:
    text = f"<Job><JobId>j</JobId>{'' if 'Executable' in inside else '<Executable>/bin/x</Executable>'}{inside}</Job>"
    with pytest.raises(CannotSubmitError) as caught:
        plan_document(text, dataclasses.replace(RULES, user="asta"))
    assert caught.value.reason == reason


def test_a_job_without_a_program_is_refused() -> None:
    with pytest.raises(CannotSubmitError, match="no-executable"):
        plan_document("<Job><JobId>j</JobId></Job>")


def test_node_requests_are_ignored_with_the_option() -> None:
    text = job("<NodeProperties><Feature>x</Feature></NodeProperties>")
    (task,) = plan_document(text, dataclasses.replace(RULES, ignore_nodes=True))
    assert any(row.path == "NodeProperties[1]/Feature[1]" for row in task.files[0].unmapped_rows)
