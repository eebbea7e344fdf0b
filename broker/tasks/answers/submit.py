"""Submission: text in JDL, CFG, as SSS Job Object or as PanDA's task parameters becomes tasks, all of them or none.

A job described in JDL or CFG is one task, with a pseudo-input of one file.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from broker.errors import WRONG_USAGE, BrokerError, Refused
from broker.formats.model.sss.job_columns import MappingRules
from broker.formats.model.sss.reading import read_document
from broker.formats.model.sss.submission import (
    DEFAULT_PRIORITY,
    CannotSubmitError,
    PlannedFile,
    PlannedOutput,
    SubmissionRules,
    SubmitTerms,
    TaskPlan,
    plan,
)
from broker.formats.model.sss.xml_reading import BadDocumentError
from broker.pools.answers.pool_files import pool_in, read_job_file, refused_in, shipped_declarations, specs_in
from broker.pools.model.declarations import Declarations
from broker.pools.model.description import RequirementRefused
from broker.pools.model.eligibility import match_pools
from broker.pools.model.job_request import JobRequest, job_request, plain_value
from broker.pools.model.requirement import SubmitPool, vo_name
from broker.pools.model.resources import Resources
from broker.pools.statements import resource_versions
from broker.pools.statements.pool_registration import TaskRequirements
from broker.store.connection.database import Database
from broker.tasks.answers.task_submission import task_submission
from broker.tasks.model.refine import Submitter
from broker.tasks.statements import task_rows
from broker.tasks.statements.task_rows import AnySubmission, InsertedTask, Submission


@dataclass(frozen=True)
class SubmitOptions(SubmitTerms):
    """The options of a submission: ``share`` and ``queue_name`` map names of an SSS document to PanDA's."""

    share: list[str] | None = None
    queue_name: list[str] | None = None
    ignore_nodes: bool = False

    def sss_rules(self, mapping: MappingRules, queues: frozenset[str]) -> SubmissionRules:
        """The options as the planner of SSS documents takes them, with the ``queues`` that exist."""
        return SubmissionRules(self.user, self.vo, self.label, self.nucleus, mapping, queues, self.ignore_nodes)


@dataclass(frozen=True)
class Grid:
    """What a submission is checked against.

    Attributes:
        queues: names of the PanDA queues that exist.
        declarations: of the parameters that jobs may require.
        resources: Site, CE and queue; None when none were ever published.
    """

    queues: frozenset[str]
    declarations: Declarations
    resources: Resources | None


Planner = Callable[[Path, SubmitOptions, Grid], tuple[Submission, ...]]
"""Reads a file and plans its tasks."""


class NotSubmitted(Refused):
    """A job may not be run; nothing was submitted."""


#: DIRAC's priorities go from 0 to 10, and 1 is the usual one: it becomes the usual one here.
PRIORITY_STEP, USUAL_PRIORITY = 100, 1
_SHOWN_QUEUES = 5


def plan_description(file: Path, options: SubmitOptions, grid: Grid) -> tuple[Submission, ...]:
    """The task of a job description.

    Raises:
        RefusedInput: the description is not understood.
        NotSubmitted: it is understood, but the job may not be run like this.
    """
    job = read_job_file(file)
    try:
        request = job_request(job.description)
    except RequirementRefused as refused:
        raise refused_in(file, refused) from refused
    pool = pool_in(file, job, options.vo, grid.declarations)
    specs = specs_in(file, job, options.vo)
    options = replace(options, vo=vo_name(options.vo))
    _check_options(file, request, options)
    requirements = {name: plain_value(value) for name, value in (job.requirements or {}).items()}
    requested = TaskRequirements(
        requirements if job.requirements else None,
        request.sites or (() if specs is None else specs.sites),
        request.banned_sites,
        request.platforms,
        request.cpu_time_s,
        None if specs is None else specs.canonical,
    )
    of_node = () if specs is None else (specs.words,)
    notes = (
        *of_node,
        *_places(request, pool, grid),
        *(f"{name} is kept and decides nothing" for name in request.other_keywords),
    )
    return (Submission(_plan(request, options, notes), pool, requested),)


def _check_options(file: Path, request: JobRequest, options: SubmitOptions) -> None:
    remedy = "nothing was submitted; change the description or the command"
    if options.share or options.queue_name or options.ignore_nodes:
        raise NotSubmitted("--share, --queue-name and --ignore-nodes are for .xml files", str(file), remedy)
    if request.vo is not None and request.vo != options.vo:
        raise NotSubmitted(f"wrong-vo: it is for {request.vo}, submitted with --vo {options.vo}", str(file), remedy)
    if options.user is not None and request.owner is not None and options.user != request.owner:
        raise NotSubmitted(f"wrong-user: Owner is {request.owner}, submitted by {options.user}", str(file), remedy)


def _plan(request: JobRequest, options: SubmitOptions, notes: tuple[str, ...]) -> TaskPlan:
    name = request.name or Path(request.executable).name or request.executable
    is_production = options.label == "managed"
    priority = DEFAULT_PRIORITY
    if request.priority is not None:
        priority += (request.priority - USUAL_PRIORITY) * PRIORITY_STEP
    columns: dict[str, Any] = {
        "taskname": name,
        # Only production tasks get a nucleus from the task brokerage.
        "status": "assigning" if is_production and options.nucleus is None else "ready",
        "superstatus": "submitted",
        "prodsourcelabel": options.label,
        "vo": options.vo,
        "cloud": "WORLD",
        "nucleus": options.nucleus,
        "tasktype": "prod" if is_production else "anal",
        "splitrule": "NF=1",
        "processingtype": request.job_type or "jdl",
        "currentpriority": priority,
        "taskpriority": priority,
        "username": options.user or request.owner,
        "workinggroup": request.owner_group,
        "transpath": request.executable,
        "corecount": request.cores or 1,
    }
    if request.cpu_time_s is not None:
        # The pseudo-input has one event, and the job states in normalised seconds what it needs in all.
        columns |= {"cputime": request.cpu_time_s, "cputimeunit": "HS06sPerEvent", "cpuefficiency": 100}
    parameters = {
        "taskName": name,
        "transPath": request.executable,
        "noInput": True,
        "nFiles": 1,
        "vo": options.vo,
        "userName": columns["username"],
        "prodSourceLabel": options.label,
        "arguments": request.arguments,
        "description": dict(request.other_keywords),
    }
    set_columns = {column: value for column, value in columns.items() if value is not None}
    file = PlannedFile(name, None, request.arguments, ())
    return TaskPlan(set_columns, parameters, None, (file,), (), notes, _outputs(request, options))


def _outputs(request: JobRequest, options: SubmitOptions) -> tuple[PlannedOutput, ...]:
    """What the job writes: its output under the names that it declares, and a log of its prints, if it wants one."""
    user = options.user or request.owner
    scope = (f"user.{user}" if options.label == "user" and user else options.vo)[:30]
    outputs = [PlannedOutput("output", name, scope) for name in request.outputs]
    log = [PlannedOutput("log", "job.${PANDAID}.log.tgz", scope)] if request.keeps_log else []
    return (*outputs, *log)


def _places(request: JobRequest, pool: SubmitPool | None, grid: Grid) -> list[str]:
    """What the submitter should know about where the job can run now; a refresh of the resources may change it."""
    if grid.resources is None:
        return ["no resources are published: the job waits until some are"] if pool is not None else []
    sites = {queue.site for queue in grid.resources.queues}
    notes = [
        f"no resource is at a site {site}" for site in (*request.sites, *request.banned_sites) if site not in sites
    ]
    if pool is None:
        return notes
    notes += [
        f"no resource defines {one.name}" for one in pool.requirements if one.name not in grid.resources.parameter_names
    ]
    answer = match_pools([pool], grid.resources)
    eligible = answer.eligible_queues(0)
    wanted = [queue for queue in eligible if queue.site not in request.banned_sites]
    wanted = [queue for queue in wanted if not request.sites or queue.site in request.sites]
    if not eligible:
        shown = [f"{queue} {reason}" for queue, reason in list(answer.reasons(0).items())[:_SHOWN_QUEUES]]
        notes.append(f"no queue meets the requirements now, and the job waits: {', '.join(shown) or 'there is none'}")
    elif not wanted:
        notes.append("no queue that meets the requirements is at a site that is asked for, and the job waits")
    return notes


Kind = Literal["jdl", "cfg", "sss", "task"]


class RefusedText(BrokerError):
    """The text is not understood."""

    exit_status = WRONG_USAGE


def planned(kind: Kind, text: str, options: SubmitOptions, grid: Grid) -> tuple[AnySubmission, ...]:
    """The tasks that a text describes.

    Args:
        kind: the kind of the text.
        text: as it was received.
        options: the options of the submission.
        grid: what the submission is checked against.

    Raises:
        BrokerError: it is not understood, or may not be submitted.
    """
    return _PLANNERS[kind](text, options, grid)


def submit_all(database: Database, submissions: Sequence[AnySubmission], now: datetime) -> tuple[InsertedTask, ...]:
    """Make the tasks of one text: all of them in one transaction, or none."""
    described = [one for one in submissions if isinstance(one, Submission)]
    if len(described) == len(submissions):
        return task_rows.submit(database, described, now)
    return tuple(one.make(database, now) for one in submissions)  # task parameters are one task


def known_grid(database: Database) -> Grid:
    """What a submission is checked against, read from the database."""
    with database.begin() as connection:
        queues = task_rows.known_queues(connection, database.names)
        version = resource_versions.current(connection)
    declared = None if version is None else version.content.declarations
    return Grid(queues, declared or shipped_declarations(), None if version is None else version.content.resources)


def _described(suffix: str) -> Callable[[str, SubmitOptions, Grid], tuple[AnySubmission, ...]]:
    """The planner of descriptions, which reads files: the suffix of the name gives the kind."""

    def plan_text(text: str, options: SubmitOptions, grid: Grid) -> tuple[AnySubmission, ...]:
        with tempfile.TemporaryDirectory(prefix="gridbroker-") as folder:
            file = Path(folder) / f"description{suffix}"
            file.write_text(text, encoding="utf-8", errors="surrogatepass")
            try:
                return plan_description(file, options, grid)
            except BrokerError as error:
                error.where = error.where.replace(str(file), "the text")
                raise

    return plan_text


def _plan_sss(text: str, options: SubmitOptions, grid: Grid) -> tuple[AnySubmission, ...]:
    rules = options.sss_rules(MappingRules(_pairs(options.share), _pairs(options.queue_name)), grid.queues)
    try:
        document = read_document(text.encode("utf-8", "surrogatepass"))
        return tuple(Submission(task_plan) for task_plan in plan(document, rules))
    except BadDocumentError as error:
        raise RefusedText(str(error), "the SSS document", "correct it") from error
    except CannotSubmitError as error:
        raise NotSubmitted(str(error), "the SSS document", "nothing was submitted; change it") from error


def _plan_task(text: str, options: SubmitOptions, grid: Grid) -> tuple[AnySubmission, ...]:
    try:
        parameters: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RefusedText("the task parameters are no JSON", "the text", "send a JSON object") from error
    if not isinstance(parameters, Mapping):
        raise RefusedText("the task parameters are no JSON object", "the text", "send a JSON object")
    return (task_submission(parameters, Submitter(options.user, options.vo, options.label, options.nucleus)),)


def _pairs(words: list[str] | None) -> dict[str, str]:
    mapping = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise RefusedText(f"not usable: {word[:80]}", "names of shares and queues", "write NAME=VALUE")
        mapping[name] = value
    return mapping


_PLANNERS: Mapping[Kind, Callable[[str, SubmitOptions, Grid], tuple[AnySubmission, ...]]] = {
    "jdl": _described(".jdl"),
    "cfg": _described(".cfg"),
    "sss": _plan_sss,
    "task": _plan_task,
}
