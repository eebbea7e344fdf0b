"""``broker submit``: jobs from a file, by the kind of the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from broker.cli import sss
from broker.cli.context import open_store
from broker.cli.output import print_json, print_table, remark
from broker.errors import WRONG_USAGE, BrokerError, Refused
from broker.formats.sss.submission import CannotSubmitError, SubmissionRules, TaskPlan, plan
from broker.store import sss_submissions
from broker.store.sss_submissions import Submitted


@dataclass(frozen=True)
class SubmitOptions:
    """What the command line says about a submission, whatever the kind of the file."""

    user: str | None
    vo: str
    label: str
    nucleus: str | None
    share: list[str] | None
    queue_name: list[str] | None
    ignore_nodes: bool


Planner = Callable[[Path, SubmitOptions, frozenset[str]], tuple[TaskPlan, ...]]
"""Reads a file and plans its tasks; the last argument is the names of the queues that exist."""


class UnknownKind(BrokerError):
    """No planner for this kind of file."""

    exit_status = WRONG_USAGE


class NotSubmitted(Refused):
    """A job that may not be run; nothing was submitted."""


def plan_sss(file: Path, options: SubmitOptions, queues: frozenset[str]) -> tuple[TaskPlan, ...]:
    """The tasks of an SSS Job Object."""
    document = sss.load_document(file)
    rules = SubmissionRules(
        sss.mapping_rules(options.share, options.queue_name),
        options.user,
        options.vo,
        options.label,
        options.nucleus,
        queues,
        options.ignore_nodes,
    )
    try:
        return plan(document, rules)
    except CannotSubmitError as error:
        raise NotSubmitted(str(error), str(file), "nothing was submitted; change the document") from error


PLANNERS: dict[str, Planner] = {".xml": plan_sss}
"""How to plan a file, by the end of its name. Another kind is one more entry."""


def submit(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Its name tells the kind: .xml is an SSS Job Object.")],
    user: Annotated[str | None, typer.Option(help="Who submits; a document that names another is refused.")] = None,
    vo: Annotated[str, typer.Option(help="Virtual organisation.")] = "atlas",
    label: Annotated[str, typer.Option(help="Production source label of the tasks.")] = "managed",
    nucleus: Annotated[str | None, typer.Option(help="Where the output goes [the task brokerage chooses].")] = None,
    share: sss.Shares = None,
    queue_name: sss.Queues = None,
    ignore_nodes: Annotated[
        bool, typer.Option("--ignore-nodes", help="Although it asks for nodes or licences, which nobody looks at.")
    ] = False,
    at: Annotated[int | None, typer.Option("--at", metavar="UNIX", help="Time of the submission [now].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object a task.")] = False,
) -> None:
    """Make tasks of the jobs in a file; the brokerage finds queues for them like for any other."""
    planner = PLANNERS.get(file.suffix.lower())
    if planner is None:
        known = ", ".join(PLANNERS)
        raise UnknownKind(f"unknown kind of file: {file.suffix or 'no suffix'}", str(file), f"known are {known}")
    options = SubmitOptions(user, vo, label, nucleus, share, queue_name, ignore_nodes)
    with open_store(context) as database:
        with database.begin() as connection:
            queues = sss_submissions.known_queues(connection, database.names)
        done = sss_submissions.submit(database, planner(file, options, queues), sss.instant(at))
    _tell(done, as_json)


def _tell(done: tuple[Submitted, ...], as_json: bool) -> None:
    if as_json:
        for one in done:
            print_json(
                {
                    "jeditaskid": one.jeditaskid,
                    "taskname": one.taskname,
                    "status": one.status,
                    "jobs": list(one.job_ids),
                    "alternatives": one.alternatives,
                    "notes": list(one.notes),
                }
            )
        return
    rows = [(one.jeditaskid, one.taskname, one.status, len(one.job_ids), one.alternatives) for one in done]
    print_table(("task", "name", "status", "jobs", "alternatives"), rows)
    for one in done:
        for note in one.notes:
            remark(f"task {one.jeditaskid}: {note}")
