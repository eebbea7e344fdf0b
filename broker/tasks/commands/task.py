"""``broker task``: submit a task from a file of task parameters, show, act on, and subscribe to tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from broker.cli.context import moment_of, open_store, query_context, settings_of
from broker.cli.elsewhere import Arguments, Documents, NotRemote, RemoteDocuments
from broker.cli.output import Column, print_json, print_table, remark
from broker.errors import DONE, NOT_PLACED, WRONG_USAGE, BrokerError
from broker.formats.commands.sss import instant
from broker.notifications.answers import subscriptions
from broker.notifications.answers.subscriptions import Subscriber, TaskSubscriptions
from broker.retries.answers.retries import RetryActionLine, actions_of
from broker.sizing.answers.requests import TaskRequests, task_requests
from broker.store.connection.database import Database
from broker.store.query_context import ResponseModel
from broker.tasks.answers.submitted_task import made_task
from broker.tasks.answers.task_submission import TaskSubmission, task_submission
from broker.tasks.commands import verbs
from broker.tasks.model.datasets import read_file
from broker.tasks.model.refine import Submitter
from broker.tasks.model.task import InputFile
from broker.tasks.model.values import BadParameter
from broker.tasks.statements.task_rows import InsertedTask
from broker.tuning.answers.values import Editor, editor_name
from broker.yaml_text import read_yaml

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient

MOST_ACTIONS = 50


class ShownTask(ResponseModel):
    """A task: its requests, and what retry rules did for its jobs, the oldest first."""

    requests: TaskRequests
    retries: tuple[RetryActionLine, ...]


def show(
    context: typer.Context,
    task: Annotated[int, typer.Argument(metavar="TASK", help="The task (jeditaskid).")],
    as_json: Annotated[bool, typer.Option("--json", help="One object: requests, retries.")] = False,
) -> None:
    """Show the request of a task, the origin of each value, and what retry rules did for its failed jobs."""
    with query_context(context) as query:
        answer = ShownTask(requests=task_requests(query, task), retries=actions_of(query, task=task))
    if as_json:
        print_json(answer)
        return
    requests = answer.requests
    columns = ("what", "asked", "unit", "from", Column("scouts say", drop_order=1), Column("why", drop_order=2))
    rows = [(one.name, _or_dash(one.value), one.unit or "-", one.source, _or_dash(one.scouts), one.reason or "-")
            for one in requests.values]  # fmt: skip
    print_table(columns, rows, title=f"Task {requests.jeditaskid}, {requests.status}: what its jobs ask for")
    _say_learned(requests)
    if answer.retries:
        shown = [
            (one.acted_at, one.pandaid, one.rule, one.action, "active" if one.active else "passive", one.reason)
            for one in answer.retries[-MOST_ACTIONS:]
        ]
        print_table(("at", "job", "rule", "action", "mode", "what it did"), shown, title="Retry rules")


def _say_learned(requests: TaskRequests) -> None:
    one = requests.learned
    if one is None:
        remark("its jobs were not looked at yet; the agent task_sizing does so from 5 finished jobs on")
        return
    used = f"{one.finished} jobs finished, {one.killed} killed for memory"
    if one.ask is None:
        remark(f"{used}; what is enough is not known: {one.unknown}")
    else:
        high = "more than all" if one.high is None else f"{one.high:.0f}"
        remark(
            f"{used}; half used {one.p50 or 0:.0f} MB, {one.ask:.0f} MB are enough (90 %: {one.low or 0:.0f} to {high})"
        )


def _or_dash(value: int | None) -> object:
    return "-" if value is None else value


Task = Annotated[int, typer.Argument(metavar="TASK", min=1, help="The task (jeditaskid).")]
To = Annotated[str, typer.Option("--to", help="A mail address, or a channel for subscribers of broker notify list.")]
Json = Annotated[bool, typer.Option("--json", help="One object on stdout.")]


def subscribe(context: typer.Context, task: Task, to: To, editor: Editor = None, as_json: Json = False) -> None:
    """Have somebody told, once each, when the work of a task waits for long and when the task has ended."""
    with open_store(context) as database:
        by = Subscriber(editor_name(editor))
        folder = settings_of(context).config
        subscribed = subscriptions.subscribe(database, folder, task, to, by, datetime.now(UTC))
    _show(subscribed, as_json)


def unsubscribe(context: typer.Context, task: Task, to: To, editor: Editor = None, as_json: Json = False) -> None:
    """End a subscription."""
    with open_store(context) as database:
        by = Subscriber(editor_name(editor))
        folder = settings_of(context).config
        subscribed = subscriptions.unsubscribe(database, folder, task, to, by, datetime.now(UTC))
    _show(subscribed, as_json)


def list_subscriptions(context: typer.Context, task: Task, as_json: Json = False) -> None:
    """Who is told of a task, and who was."""
    with query_context(context) as query:
        subscribed = subscriptions.subscriptions_of(query, task)
    _show(subscribed, as_json)


def _show(subscribed: TaskSubscriptions, as_json: bool) -> None:
    if as_json:
        print_json(subscribed)
        return
    rows = [
        (
            subscription.to,
            subscription.subscribed_at,
            subscription.subscribed_by,
            subscription.told_waits_at,
            subscription.ended_at,
            subscription.ended_because or "-",
        )
        for subscription in subscribed.subscriptions
    ]
    columns = ("to", "since", "by", Column("told_waits", drop_order=2), "ended", Column("because", drop_order=1))
    print_table(columns, rows, title=f"Subscriptions to task {subscribed.jeditaskid}")


app = typer.Typer(no_args_is_help=True)
LONGEST_REQUEST = 128


class UnreadableTask(BrokerError):
    """The file holds no task parameters."""

    exit_status = WRONG_USAGE


@app.callback()
def task() -> None:
    """Tasks of an installation of its own."""


for _name, _verb in (
    ("kill", verbs.kill),
    ("finish", verbs.finish),
    ("retry", verbs.retry),
    ("pause", verbs.pause),
    ("resume", verbs.resume),
    ("reassign", verbs.reassign),
    ("priority", verbs.priority),
    ("try-now", verbs.try_now),
    ("audit", verbs.audit),
    ("show", show),
    ("subscribe", subscribe),
    ("unsubscribe", unsubscribe),
    ("subscriptions", list_subscriptions),
):
    app.command(name=_name)(_verb)


@app.command()
def submit(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Task parameters: .yaml, .yml or .json.")],
    user: Annotated[str | None, typer.Option(help="Who submits [userName of the parameters].")] = None,
    vo: Annotated[
        str | None, typer.Option(help="Virtual organisation if the parameters name none [the installation's].")
    ] = None,
    label: Annotated[str, typer.Option(help="Production source label if they name none.")] = "managed",
    nucleus: Annotated[str | None, typer.Option(help="Where the output goes [the task brokerage chooses].")] = None,
    count: Annotated[
        int | None, typer.Option("--count", min=1, max=10_000_000, help="Number of jobs, without input.")
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--files", metavar="DATASET=PATH", help="Files of a dataset, one a line: a name, or a JSON object."
        ),
    ] = None,
    request: Annotated[
        str | None, typer.Option("--request", help="Number of this submission; repeating it gives the same task.")
    ] = None,
    at: Annotated[int | None, typer.Option("--at", metavar="UNIX", help="Time of the submission [now].")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Submit nothing: show jobs, and where they would go or why nowhere (5).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One object: the task as the API returns it.")] = False,
) -> None:
    """Submit a task from PanDA's task parameters; docs/reference/task-parameters.md lists them."""
    if request is not None and not (request.isprintable() and 0 < len(request) <= LONGEST_REQUEST):
        raise UnreadableTask("not usable", "--request", f"write 1 to {LONGEST_REQUEST} visible characters")
    parameters, listed = read_parameters(file), listed_files(files or [])
    with open_store(context) as database:
        submitter = Submitter(user, vo or database.names.vo, label, nucleus, count)
        submission = task_submission(parameters, submitter, request=request, files=listed)
        if dry_run:
            raise typer.Exit(_try(context, database, submission, as_json))
        submitted = submission.make(database, instant(at))
    _tell(submitted, as_json)


def read_parameters(file: Path) -> dict[str, Any]:
    """The task parameters in a file.

    Raises:
        UnreadableTask: it cannot be read, or is no object.
    """
    kind = file.suffix.lower()
    if kind not in (".yaml", ".yml", ".json"):
        remedy = "write .yaml or .json; jobs in JDL, CFG or SSS are submitted with broker submit"
        raise UnreadableTask(f"unknown kind of file: {kind or 'no suffix'}", str(file), remedy)
    try:
        text = file.read_text(encoding="utf-8")
        parameters = json.loads(text) if kind == ".json" else read_yaml(text)
    except (OSError, UnicodeError) as error:
        raise UnreadableTask(f"it cannot be read: {error}", str(file), "name a file of task parameters") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        what = " ".join(str(error).split())
        raise UnreadableTask(f"it is no {kind[1:].upper()}: {what}", str(file), "correct it") from error
    if not isinstance(parameters, dict) or not all(isinstance(name, str) for name in parameters):
        raise UnreadableTask("it holds no object of parameters", str(file), "write taskName: ... and so on")
    return parameters


def listed_files(words: list[str]) -> dict[str, Callable[[], Iterator[InputFile]]]:
    """The readers of lists of files, by dataset.

    Raises:
        UnreadableTask: a word does not name a dataset and a file.
    """
    readers: dict[str, Callable[[], Iterator[InputFile]]] = {}
    for word in words:
        dataset, equals, path = word.partition("=")
        if not (dataset and equals and path) or not Path(path).is_file():
            raise UnreadableTask(f"not usable: {word[:200]}", "--files", "write DATASET=PATH of a file that is there")
        readers[dataset] = _reader(Path(path))
    return readers


def _reader(path: Path) -> Callable[[], Iterator[InputFile]]:
    def read() -> Iterator[InputFile]:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield read_file(f"{path} line {number}", _listed(path, number, line.strip()))

    return read


def _listed(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line) if line.startswith("{") else line
    except ValueError as error:
        raise BadParameter(f"{path} line {number}", line, "it is no JSON", "write a name or an object") from error


def _try(context: typer.Context, database: Database, submission: TaskSubmission, as_json: bool) -> int:
    """Show where the jobs would go; returns the exit status."""
    from broker.decisions.answers.feasibility import Question, feasibility

    now = moment_of(None, database, of_scenario=True)
    question = Question(now, 0, settings_of(context).config, evaluate=False)
    (result,) = feasibility(database, [submission], question).tasks
    if as_json:
        print_json(result)
    else:
        columns = ("jobs", Column("brokerage", 1), "outcome", "reason", "would go to", Column("verdict", 2))
        rows = [
            (
                result.jobs,
                decision.brokerage,
                decision.outcome,
                decision.reason,
                decision.assigned,
                decision.verdict.code,
            )
            for decision in result.decisions
        ]
        print_table(columns, rows, title=f"Feasibility of {result.taskname}, no promise: nothing was submitted")
        for note in result.notes:
            remark(note)
    placed = bool(result.decisions) and result.decisions[-1].outcome == "brokered"
    return DONE if placed else NOT_PLACED


def _tell(submitted: InsertedTask, as_json: bool) -> None:
    if as_json:
        print_json(made_task(submitted))
        return
    columns = ("task", "name", "status", "jobs")
    print_table(columns, [(submitted.jeditaskid, submitted.taskname, submitted.status, submitted.jobs)])
    for note in submitted.notes:
        remark(f"task {submitted.jeditaskid}: {note}")


def _submit_elsewhere(client: BrokerClient, given: Arguments) -> Documents:
    for name, option in (("dry_run", "--dry-run"), ("files", "--files"), ("at", "--at")):
        if given[name]:
            raise NotRemote("it is read on the broker's own machine", option, f"leave out {option}")
    options = {name: given[name] for name in ("user", "vo", "label", "nucleus", "count", "request") if given[name]}
    return [client.submit_task(read_parameters(given["file"]), **options)]


ELSEWHERE = {"submit": RemoteDocuments(_submit_elsewhere), **verbs.ELSEWHERE}
