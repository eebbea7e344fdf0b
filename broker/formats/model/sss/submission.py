"""Jobs of a document as tasks with a pseudo-input: one file for each job, so that there is only one kind of work.

Jobs that request the same and run the same program become one task; their arguments stay with their files. What the
broker could not honour is refused, not ignored. Source: Scalable Systems Software Job Object Specification 3.0.3; PanDA
data model, tasks and pseudo datasets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from broker.domain.work import WayToRun
from broker.formats.model.sss.from_panda import ElementRow, unmapped_rows
from broker.formats.model.sss.inheritance import WholeJob, whole_jobs
from broker.formats.model.sss.job_columns import MappedJob, MappingRules, map_job
from broker.formats.model.sss.model import Block, Document, JobLevel
from broker.formats.model.sss.requests import Request

DEFAULT_PRIORITY = 500
MAX_TASK_NAME = 256
#: With an efficiency of 0 the CPU time does not count, and the walltime of a job is its base walltime.
_WALLTIME_ONLY: dict[str, Any] = {"cputime": 1, "cputimeunit": "HS06sPerEvent", "cpuefficiency": 0}
#: Columns of a job that its task has under the same meaning, with the width there.
_TASK_COLUMNS = {
    "prodUserName": ("username", 128),
    "workingGroup": ("workinggroup", 32),
    "gshare": ("gshare", 32),
    "transformation": ("transpath", 128),
    "cmtConfig": ("architecture", 256),
    "container_name": ("container_name", 200),
    "processingType": ("processingtype", 64),
    "VO": ("vo", 32),
}


class CannotSubmitError(ValueError):
    """A job that may not be run as it is; ``reason`` is a short code."""

    def __init__(self, job_id: str, reason: str, detail: str) -> None:
        super().__init__(f"job {job_id}: {reason}: {detail}")
        self.reason = reason


@dataclass(frozen=True)
class SubmitTerms:
    """Terms of a submission that the submitted document does not state, in any format.

    Attributes:
        user: who submits; a file that names another user is refused. ``None``: the file's user is accepted.
        vo: virtual organisation.
        label: production source label of the tasks.
        nucleus: where the output goes; ``None``: the task brokerage chooses, unless the file does.
    """

    user: str | None = None
    vo: str = "atlas"
    label: str = "managed"
    nucleus: str | None = None


@dataclass(frozen=True)
class SubmissionRules(SubmitTerms):
    """What the submitter and the installation state in addition to an SSS document.

    Attributes:
        mapping: names of shares and queues.
        queues: PanDA queues that exist; a queue of another name is no pre-assignment.
        ignore_nodes: submit although the document requests nodes or licences, which are not matched.
    """

    mapping: MappingRules = field(default_factory=MappingRules)
    queues: frozenset[str] = frozenset()
    ignore_nodes: bool = False


@dataclass(frozen=True)
class PlannedFile:
    """One job of a task: its names in the document it came from, its arguments, and what has no column."""

    job_id: str
    global_id: str | None
    arguments: str | None
    unmapped_rows: tuple[ElementRow, ...]


@dataclass(frozen=True)
class PlannedOutput:
    """A file that each job of a task writes: output or log, its name with ``${PANDAID}``, and its scope."""

    type: Literal["output", "log"]
    lfn: str
    scope: str


@dataclass(frozen=True)
class TaskPlan:
    """A task to be made.

    ``columns`` of ``jedi_tasks``, its parameters, its jobs, the ways in which it may be run, and what its jobs write.
    """

    columns: Mapping[str, Any]
    parameters: Mapping[str, Any]
    group_id: str | None
    files: tuple[PlannedFile, ...]
    alternatives: tuple[WayToRun, ...]
    notes: tuple[str, ...]
    outputs: tuple[PlannedOutput, ...] = ()


def plan(document: Document, rules: SubmissionRules) -> tuple[TaskPlan, ...]:
    """The tasks for all jobs of a document, in its order.

    Raises:
        CannotSubmitError: one of the jobs may not be run; then nothing must be submitted.
    """
    grouped: dict[tuple[Any, ...], list[tuple[WholeJob, MappedJob]]] = {}
    for whole in whole_jobs(document):
        mapped = map_job(whole, rules.mapping)
        _check(whole.job, mapped, rules)
        grouped.setdefault(_alike(whole, mapped), []).append((whole, mapped))
    return tuple(_task(document, members, rules, number) for number, members in enumerate(grouped.values(), start=1))


_OF_NODES = ("Resource", "NodeCount", "Feature")


def _check(job: JobLevel, mapped: MappedJob, rules: SubmissionRules) -> None:
    job_id = mapped.job_id
    if mapped.columns is None:
        raise CannotSubmitError(job_id, mapped.refused, mapped.notes[-1] if mapped.notes else "")
    if job.text("JobState") in ("Running", "Suspended", "Completed"):
        raise CannotSubmitError(job_id, "already-started", f"its state is {job.text('JobState')}; import it instead")
    if "transformation" not in mapped.columns:
        raise CannotSubmitError(job_id, "no-executable", "a job to be run names its Executable")
    if job.all_of("Dependency"):
        raise CannotSubmitError(job_id, "dependency", "nothing would hold the job back until the other is done")
    user = job.text("UserId")
    if rules.user is not None and user is not None and user != rules.user:
        raise CannotSubmitError(job_id, "wrong-user", f"UserId is {user}, submitted by {rules.user}")
    levels = (job, *job.of_level("TaskGroup"))
    blocks = [level.requested for level in levels if level.requested is not None]
    parts: tuple[JobLevel | Block, ...] = (*levels, *blocks)
    asks_nodes = any(part.nodes or any(part.all_of(name) for name in _OF_NODES) for part in parts)
    if asks_nodes and not rules.ignore_nodes:
        raise CannotSubmitError(job_id, "node-request", "nodes, features and licences are not matched")


def _alike(whole: WholeJob, mapped: MappedJob) -> tuple[Any, ...]:
    """The key by which jobs are grouped into one task."""
    own = {"PandaID", "jobName", "jobParameters", "creationTime", "currentPriority", "jobStatus"}
    columns = {name: value for name, value in (mapped.columns or {}).items() if name not in own}
    priority = (mapped.columns or {}).get("currentPriority")
    return tuple(sorted(columns.items())), priority, bool(whole.job.all_of("Hold")), mapped.request


def _task(
    document: Document, members: list[tuple[WholeJob, MappedJob]], rules: SubmissionRules, number: int
) -> TaskPlan:
    whole, mapped = members[0]
    columns = mapped.columns or {}
    notes = list(dict.fromkeys(note for _, one in members for note in one.notes if "side table" not in note))
    held = bool(whole.job.all_of("Hold"))
    group = document.group
    task_columns: dict[str, Any] = {
        "taskname": _name(group, mapped.job_id, columns, number),
        "status": "paused" if held else "ready" if rules.nucleus else "assigning",
        "oldstatus": ("ready" if rules.nucleus else "assigning") if held else None,
        "superstatus": "submitted",
        "prodsourcelabel": rules.label,
        "vo": rules.vo,
        "cloud": "WORLD",
        "nucleus": rules.nucleus,
        "tasktype": "prod" if rules.label == "managed" else "anal",
        "splitrule": "NF=1",
        "processingtype": "sss",
        "currentpriority": columns.get("currentPriority", DEFAULT_PRIORITY),
        "taskpriority": columns.get("currentPriority", DEFAULT_PRIORITY),
        "username": rules.user,
        "transuses": columns.get("homepackage"),
        "site": _site(columns, rules, notes),
        **dict(_own_columns(columns, mapped.job_id)),
        **_demand(mapped.request),
    }
    parameters = {
        "taskName": task_columns["taskname"],
        "transPath": columns["transformation"],
        "noInput": True,
        "nFiles": len(members),
        "vo": task_columns["vo"],
        "userName": task_columns["username"],
        "prodSourceLabel": rules.label,
    }
    group_id = group.text("JobGroupId") if group is not None else None
    return TaskPlan(
        {name: value for name, value in task_columns.items() if value is not None},
        parameters,
        group_id,
        tuple(_file(one, job) for one, job in members),
        _ways(mapped.request),
        tuple(notes),
    )


def _name(group: JobLevel | None, job_id: str, columns: Mapping[str, Any], number: int) -> str:
    if group is None:
        return str(columns.get("jobName") or job_id)[:MAX_TASK_NAME]
    name = group.text("JobGroupName") or group.text("JobGroupId") or job_id
    return f"{name}.{number}"[:MAX_TASK_NAME]


def _site(columns: Mapping[str, Any], rules: SubmissionRules, notes: list[str]) -> str | None:
    queue = columns.get("computingSite")
    if queue is None:
        return None
    if queue in rules.queues:
        return str(queue)
    notes.append(f"Queue {queue} is no queue here: kept, and any queue may be chosen")
    return None


def _own_columns(columns: Mapping[str, Any], job_id: str) -> Iterator[tuple[str, Any]]:
    for name, (column, width) in _TASK_COLUMNS.items():
        value = columns.get(name)
        if value is None:
            continue
        if len(str(value)) > width:
            raise CannotSubmitError(
                job_id, "too-wide", f"{name} has {len(str(value))} characters, a task takes {width}"
            )
        yield column, value


def _demand(request: Request) -> dict[str, Any]:
    """What one job needs, by its preferred alternative."""
    first = request.first
    demand: dict[str, Any] = {"corecount": first.fewest_cores or 1}
    if first.memory_mb is not None:
        demand |= {"ramcount": first.way.ramcount_mb, "ramunit": "MB"}
    if first.disk_mb is not None:
        demand |= {"workdiskcount": first.disk_mb, "workdiskunit": "MB"}
    if first.wall_s is not None:
        demand |= {**_WALLTIME_ONLY, "basewalltime": first.wall_s}
    return demand


def _ways(request: Request) -> tuple[WayToRun, ...]:
    """The alternatives that brokerage has to consider: none if cores are not requested and there is no choice."""
    if not request.is_fuzzy and request.first.cores is None:
        return ()
    return tuple(alternative.way for alternative in request.alternatives)


def _file(whole: WholeJob, mapped: MappedJob) -> PlannedFile:
    job = whole.job
    return PlannedFile(
        mapped.job_id,
        job.text("GlobalJobId"),
        job.text("Arguments"),
        unmapped_rows(job, mapped.unmapped, mapped.request),
    )
