"""``broker share``: the global shares, which of them tasks belong to, and changes of them."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from broker.cli.context import moment_of, open_store
from broker.cli.output import Column, print_json, print_table, remark
from broker.domain.classification import DEFAULT_SHARE
from broker.errors import WRONG_USAGE, BrokerError
from broker.grid.answers import shares as share_changes
from broker.grid.answers.shares import ShareEdit
from broker.grid.statements import share_rows
from broker.tuning.answers.values import Editor, editor_name
from broker.tuning.statements.gdpconfig_rows import TuningStore

app = typer.Typer(no_args_is_help=True)

QUEUE_LIMIT = "NQUEUELIMITSITE"
LONGEST_REASON = 500
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line on stdout.")]
Name = Annotated[str, typer.Argument(help=f"The share; {DEFAULT_SHARE} is that of tasks that name none.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, for the history.", show_default=False)]
Pattern = Annotated[str | None, typer.Option(help="Only tasks with this, a regular expression; '' for any.")]


class WrongReason(BrokerError):
    """A reason that is none."""

    exit_status = WRONG_USAGE


@app.command(name="list")
def list_shares(context: typer.Context, json: Json = False) -> None:
    """The shares with what decides who belongs to them, and the key and value of the cap of waiting jobs."""
    with open_store(context) as database, database.read_snapshot() as connection:
        shares = list(share_rows.read_shares(connection, database.names).values())
        tuning = TuningStore(database.names).read_current(connection, live=True).tuning(database.names.vo)
    caps = tuning.by_suffix(QUEUE_LIMIT, [one.name for one in shares]).tolist()
    for one, cap in zip(shares, caps, strict=True) if json else ():
        print_json({**dataclasses.asdict(one), "waiting_jobs_a_queue": cap, "key": f"{QUEUE_LIMIT}_{one.name}"})
    if json:
        return
    columns = ("share", "value", "parent", Column("label", 2), Column("working group", 3), Column("VO", 4))
    rows = [
        (one.name, one.value, one.parent, one.prodsourcelabel, one.workinggroup, one.vo, int(cap), _key(one.name))
        for one, cap in zip(shares, caps, strict=True)
    ]
    print_table((*columns, "waiting jobs a queue", Column("set by", 1)), rows, title="Shares")


@app.command(name="set")
def set_share(
    context: typer.Context,
    name: Name,
    value: Annotated[int, typer.Argument(help="Its part, relative to those of its siblings.", show_default=False)],
    reason: Reason,
    parent: Annotated[str | None, typer.Option(help="The share that it is a part of; '' for none.")] = None,
    label: Pattern = None,
    working_group: Pattern = None,
    processing_type: Pattern = None,
    vo: Annotated[str | None, typer.Option("--vo", help="VO of a new share [the installation's].")] = None,
    editor: Editor = None,
    json: Json = False,
) -> None:
    """Make a share, or change it: what is not named stays. Running services use it from their next cycle on."""
    who, why = editor_name(editor), _checked(reason)
    given = {
        "parent": parent,
        "prodsourcelabel": label,
        "workinggroup": working_group,
        "processingtype": processing_type,
        "vo": vo,
    }
    fields = {field: one or None for field, one in given.items() if one is not None}
    with open_store(context) as database:
        edit = ShareEdit(who, why, moment_of(None, database))
        new, made = share_changes.set_share(database, name, value, fields, edit)
    if json:
        print_json({**dataclasses.asdict(new), "made": made})
    else:
        remark(f"share {name}: {'made' if made else 'changed'}; waiting jobs a queue: {_key(name)}")


@app.command()
def remove(context: typer.Context, name: Name, reason: Reason, editor: Editor = None, json: Json = False) -> None:
    """Remove a share without shares below it and without tasks that have not ended."""
    who, why = editor_name(editor), _checked(reason)
    with open_store(context) as database:
        share_changes.remove_share(database, name, ShareEdit(who, why, moment_of(None, database)))
    if json:
        print_json({"name": name, "removed": True})
    else:
        remark(f"share {name}: removed")


@app.command()
def history(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="The share; all without.", show_default=False)] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="So many changes, the newest first.")] = 100,
    json: Json = False,
) -> None:
    """Who changed which share, when and why; newest first."""
    with open_store(context) as database, database.read_snapshot() as connection:
        found = share_rows.share_changes(connection, name, limit)
    if json:
        for one in found:
            print_json(dataclasses.asdict(one))
        return
    columns = ("time", "by", "share", "before", "after", "reason")
    rows = [(one.changed_at, one.editor, one.share, _value(one.old), _value(one.new), one.reason) for one in found]
    print_table(columns, rows, title="Changes of shares")


def _key(name: str) -> str:
    return f"{QUEUE_LIMIT}_{name}"


def _value(row: object) -> object:
    return row["value"] if isinstance(row, dict) else None


def _checked(reason: str) -> str:
    if not 0 < len(reason.strip()) <= LONGEST_REASON:
        raise WrongReason("no reason, or too long a one", "--reason", f"give 1 to {LONGEST_REASON} characters")
    return reason
