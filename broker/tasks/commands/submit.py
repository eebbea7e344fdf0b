"""``broker submit``: jobs from a file, by the kind of the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from broker.cli.context import moment_of, open_store, settings_of
from broker.cli.elsewhere import Arguments, Documents, NotRemote, RemoteDocuments
from broker.cli.output import Column, print_json, print_table, remark
from broker.errors import DONE, NOT_PLACED, WRONG_USAGE, BrokerError
from broker.formats.commands import sss
from broker.formats.model.sss.submission import CannotSubmitError, plan
from broker.pools.answers.pool_files import shipped_declarations
from broker.pools.statements import resource_versions
from broker.store.connection.database import Database
from broker.tasks.answers.submit import Grid, NotSubmitted, Planner, SubmitOptions, plan_description
from broker.tasks.answers.submitted_task import submitted_task
from broker.tasks.statements import task_rows as sss_submissions
from broker.tasks.statements.task_rows import InsertedTask, Submission

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient


class UnknownKind(BrokerError):
    """No planner handles this kind of file."""

    exit_status = WRONG_USAGE


def plan_sss(file: Path, options: SubmitOptions, grid: Grid) -> tuple[Submission, ...]:
    """The tasks of an SSS Job Object."""
    document = sss.load_document(file)
    rules = options.sss_rules(sss.mapping_rules(options.share, options.queue_name), grid.queues)
    try:
        return tuple(Submission(one) for one in plan(document, rules))
    except CannotSubmitError as error:
        raise NotSubmitted(str(error), str(file), "nothing was submitted; change the document") from error


PLANNERS: dict[str, Planner] = {".xml": plan_sss, ".jdl": plan_description, ".cfg": plan_description}
"""How to plan a file, by the end of its name. Another kind is one more entry."""
KINDS: Mapping[str, Literal["jdl", "cfg", "sss"]] = {".xml": "sss", ".jdl": "jdl", ".cfg": "cfg"}
"""The API's name of each of these kinds."""
TASK_PARAMETERS = "task parameters (.yaml, .json) are submitted with `broker task submit`"


def submit(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Its suffix gives the kind: .jdl, .cfg, or .xml (SSS).")],
    user: Annotated[str | None, typer.Option(help="Who submits; a document that names another is refused.")] = None,
    vo: Annotated[str | None, typer.Option(help="Virtual organisation [the installation's].")] = None,
    label: Annotated[str, typer.Option(help="Production source label of the tasks.")] = "managed",
    nucleus: Annotated[str | None, typer.Option(help="Where the output goes [the task brokerage chooses].")] = None,
    share: sss.Shares = None,
    queue_name: sss.Queues = None,
    ignore_nodes: Annotated[
        bool, typer.Option("--ignore-nodes", help="Accept requests for nodes or licences, which are not checked.")
    ] = False,
    at: Annotated[int | None, typer.Option("--at", metavar="UNIX", help="Time of the submission [now].")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Submit nothing: show where the jobs would go now, or why nowhere (5).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One object per task.")] = False,
) -> None:
    """Create tasks from the jobs in a file; the brokerage finds queues for them as for any other."""
    planner = PLANNERS.get(file.suffix.lower())
    if planner is None:
        known = ", ".join(PLANNERS)
        what = f"unknown kind of file: {file.suffix or 'no suffix'}"
        raise UnknownKind(what, str(file), f"known are {known}; {TASK_PARAMETERS}")
    with open_store(context) as database:
        of_vo = vo or database.names.vo
        options = SubmitOptions(user, of_vo, label, nucleus, share, queue_name, ignore_nodes)
        if dry_run:
            raise typer.Exit(_try(context, database, planner(file, options, _grid(database)), as_json))
        done = sss_submissions.submit(database, planner(file, options, _grid(database)), sss.instant(at))
    _emit(done, as_json)


def _try(context: typer.Context, database: Database, planned: tuple[Submission, ...], as_json: bool) -> int:
    """Show where the jobs would go; returns the exit status."""
    from broker.decisions.answers.feasibility import Question, feasibility

    now = moment_of(None, database, of_scenario=True)
    question = Question(now, 0, settings_of(context).config, evaluate=False)
    result = feasibility(database, planned, question)
    for one in planned:
        for note in one.plan.notes:
            remark(f"{one.plan.columns.get('taskname', 'task')}: {note}")
    for task in result.tasks if as_json else ():
        print_json(task)
    rows = [
        (task.taskname, one.brokerage, one.outcome, one.reason, one.assigned, one.verdict.code)
        for task in result.tasks
        for one in task.decisions
    ]
    if not as_json:
        columns = ("task", Column("brokerage", 1), "outcome", "reason", "would go to", Column("verdict", 2))
        print_table(columns, rows, title="Feasibility, no promise: nothing was submitted")
        for task in result.tasks:
            if task.start is not None:
                remark(f"{task.taskname}: such a task {task.start.sentence}")
    if result.left_out:
        remark(f"{result.left_out} tasks were left out: only the first {len(result.tasks)} are tried")
    placed = all(task.decisions and task.decisions[-1].outcome == "brokered" for task in result.tasks)
    return DONE if placed else NOT_PLACED


def _grid(database: Database) -> Grid:
    with database.begin() as connection:
        queues = sss_submissions.known_queues(connection, database.names)
        version = resource_versions.current(connection)
    declared = None if version is None else version.content.declarations
    return Grid(queues, declared or shipped_declarations(), None if version is None else version.content.resources)


def _emit(done: tuple[InsertedTask, ...], as_json: bool) -> None:
    if as_json:
        for task in done:
            print_json(submitted_task(task))
        return
    rows = [(task.jeditaskid, task.taskname, task.status, len(task.job_ids), task.alternatives) for task in done]
    print_table(("task", "name", "status", "jobs", "alternatives"), rows)
    for task in done:
        if task.pool_id is not None:
            remark(f"task {task.jeditaskid}: pool {task.pool_id}")
        for note in task.notes:
            remark(f"task {task.jeditaskid}: {note}")


def _ask(client: BrokerClient, given: Arguments) -> Documents:
    file = Path(given["file"])
    kind = KINDS.get(file.suffix.lower())
    if kind is None:
        raise NotRemote(f"unknown kind of file: {file.suffix}", str(file), f"known are {', '.join(KINDS)}")
    options = {name: given[name] for name in ("user", "vo", "label", "nucleus", "ignore_nodes") if given[name]}
    options |= {
        option: list(given[argument])
        for argument, option in (("share", "shares"), ("queue_name", "queue_names"))
        if given[argument]
    }
    text = file.read_text(encoding="utf-8")
    if given["dry_run"]:
        return [client.feasibility(kind, text, **options)]
    tasks: Documents = client.submit(kind, text, **options)["tasks"]
    return tasks


ELSEWHERE = RemoteDocuments(_ask)
