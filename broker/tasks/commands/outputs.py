"""``broker outputs``: what jobs have written on its way to Rucio."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from broker.cli.context import moment_of, open_store, query_context
from broker.cli.output import Column, print_json, print_table, remark
from broker.cli.rendering.cells import TimeWithAge
from broker.errors import WRONG_USAGE, BrokerError
from broker.tasks.answers import outputs
from broker.tasks.statements.output_reads import RefusedFile
from broker.tuning.answers.values import Editor, editor_name

app = typer.Typer(no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]
Task = Annotated[int, typer.Argument(metavar="TASK", help="Number of the task.", show_default=False)]
LONGEST_REASON = 300


class NoReason(BrokerError):
    """The reason is missing or too long."""

    exit_status = WRONG_USAGE


@app.callback()
def group() -> None:
    """Outputs of jobs on their way to Rucio; the agent rucio_output takes them there."""


@app.command(name="list")
def list_outputs(
    context: typer.Context,
    task: Annotated[
        int | None, typer.Option("--task", help="All datasets of this task [those that wait, of all tasks].")
    ] = None,
    json: Json = False,
) -> None:
    """List datasets with their files by state, why they wait or stay open, and files that Rucio does not have."""
    with query_context(context) as query:
        if task is None:
            datasets, refused = outputs.waiting_outputs(query.connection), list[RefusedFile]()
        else:
            datasets, refused = outputs.task_outputs(query.connection, task)
        now = query.now
    if json:
        for row in [dataclasses.asdict(one) for one in datasets] + [dataclasses.asdict(one) for one in refused]:
            print_json(row)
        return
    columns = (
        "task", "dataset", "state", "registered", "queued", "refused", Column("left out", 2), Column("bytes", 1),
        Column("oldest waits", 1), "why",
    )  # fmt: skip
    rows = [
        (one.jeditaskid, one.dataset, one.state, one.registered, one.queued, one.refused, one.left_out, one.bytes,
         TimeWithAge(one.oldest_queued, max(now, one.oldest_queued or now)), one.reason)
        for one in datasets
    ]  # fmt: skip
    print_table(columns, rows, title="Outputs for Rucio")
    if refused:
        lines = [(one.file, one.pandaid, one.reason_code, one.reason) for one in refused]
        print_table(("file", "job", "refused", "why"), lines, title="Files that were refused")


@app.command()
def retry(
    context: typer.Context,
    task: Task,
    files: Annotated[list[str] | None, typer.Argument(metavar="LFN", help="Names of files [all refused ones].")] = None,
    json: Json = False,
) -> None:
    """Offer refused files to Rucio again, once the cause is fixed."""
    with open_store(context) as database:
        number = outputs.retry_refused(database, task, files or None, moment_of(None, database))
    _tell(task, "retried", number, json)


@app.command()
def leave(
    context: typer.Context,
    task: Task,
    files: Annotated[list[str], typer.Argument(metavar="LFN", help="Names of refused files.", show_default=False)],
    reason: Annotated[str, typer.Option("--reason", help="Reason; it is kept with the file.", show_default=False)],
    editor: Editor = None,
    json: Json = False,
) -> None:
    """Leave refused files out, so that their dataset is closed without them."""
    if not 0 < len(reason.strip()) <= LONGEST_REASON:
        raise NoReason("not usable", "--reason", f"say in 1 to {LONGEST_REASON} characters why")
    with open_store(context) as database:
        who, now = editor_name(editor), moment_of(None, database)
        number = outputs.leave_out(database, task, files, who, reason.strip(), now)
    _tell(task, "left_out", number, json)


def _tell(task: int, what: str, number: int, json: bool) -> None:
    if json:
        print_json({"jeditaskid": task, what: number})
    else:
        remark(f"task {task}: {number} files {what.replace('_', ' ')}; rucio_output goes on in its next cycle")
