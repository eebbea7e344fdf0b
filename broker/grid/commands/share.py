"""``broker share``: the global shares, which tasks belong to them, and their changes."""

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
from broker.store.gdpconfig_rows import TuningStore
from broker.tuning.answers.values import Editor, editor_name

app = typer.Typer(no_args_is_help=True)

QUEUE_LIMIT = "NQUEUELIMITSITE"
LONGEST_REASON = 500
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]
Name = Annotated[str, typer.Argument(help=f"The share; {DEFAULT_SHARE} is that of tasks that name none.")]
Reason = Annotated[str, typer.Option("--reason", help="Reason, for the history.", show_default=False)]
Pattern = Annotated[str | None, typer.Option(help="Only tasks that match this regular expression; '' for any.")]


class WrongReason(BrokerError):
    """The reason is missing or too long."""

    exit_status = WRONG_USAGE


@app.command(name="list")
def list_shares(context: typer.Context, json: Json = False) -> None:
    """List shares with what decides who belongs to them, and the key and value of the cap on waiting jobs."""
    with open_store(context) as database, database.read_snapshot() as connection:
        shares = list(share_rows.read_shares(connection, database.names).values())
        tuning = TuningStore(database.names).read_current(connection, live=True).tuning(database.names.vo)
    caps = tuning.by_suffix(QUEUE_LIMIT, [row.name for row in shares]).tolist()
    for row, cap in zip(shares, caps, strict=True) if json else ():
        print_json({**dataclasses.asdict(row), "waiting_jobs_a_queue": cap, "key": f"{QUEUE_LIMIT}_{row.name}"})
    if json:
        return
    columns = ("share", "value", "parent", Column("label", 2), Column("working group", 3), Column("VO", 4))
    rows = [
        (row.name, row.value, row.parent, row.prodsourcelabel, row.workinggroup, row.vo, int(cap), _key(row.name))
        for row, cap in zip(shares, caps, strict=True)
    ]
    print_table((*columns, "waiting jobs a queue", Column("set by", 1)), rows, title="Shares")


@app.command(name="set")
def set_share(
    context: typer.Context,
    name: Name,
    value: Annotated[int, typer.Argument(help="Its part, relative to its siblings.", show_default=False)],
    reason: Reason,
    parent: Annotated[str | None, typer.Option(help="Parent share; '' for none.")] = None,
    label: Pattern = None,
    working_group: Pattern = None,
    processing_type: Pattern = None,
    vo: Annotated[str | None, typer.Option("--vo", help="VO of a new share [the installation's].")] = None,
    editor: Editor = None,
    json: Json = False,
) -> None:
    """Create or change a share; what is not named stays. Running services use it from their next cycle on."""
    who, why = editor_name(editor), _valid_reason(reason)
    options = {
        "parent": parent,
        "prodsourcelabel": label,
        "workinggroup": working_group,
        "processingtype": processing_type,
        "vo": vo,
    }
    fields = {field: option or None for field, option in options.items() if option is not None}
    with open_store(context) as database:
        edit = ShareEdit(who, why, moment_of(None, database))
        new, created = share_changes.set_share(database, name, value, fields, edit)
    if json:
        print_json({**dataclasses.asdict(new), "made": created})
    else:
        remark(f"share {name}: {'made' if created else 'changed'}; waiting jobs a queue: {_key(name)}")


@app.command()
def remove(context: typer.Context, name: Name, reason: Reason, editor: Editor = None, json: Json = False) -> None:
    """Remove a share that has no shares below it, and whose tasks have all ended."""
    who, why = editor_name(editor), _valid_reason(reason)
    with open_store(context) as database:
        share_changes.remove_share(database, name, ShareEdit(who, why, moment_of(None, database)))
    if json:
        print_json({"name": name, "removed": True})
    else:
        remark(f"share {name}: removed")


@app.command()
def history(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Share [all].", show_default=False)] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of changes, newest first.")
    ] = 100,
    json: Json = False,
) -> None:
    """List who changed which share, when and why, newest first."""
    with open_store(context) as database, database.read_snapshot() as connection:
        changes = share_rows.share_changes(connection, name, limit)
    if json:
        for change in changes:
            print_json(dataclasses.asdict(change))
        return
    columns = ("time", "by", "share", "before", "after", "reason")
    rows = [
        (change.changed_at, change.editor, change.share, _value(change.old), _value(change.new), change.reason)
        for change in changes
    ]
    print_table(columns, rows, title="Changes of shares")


def _key(name: str) -> str:
    return f"{QUEUE_LIMIT}_{name}"


def _value(row: object) -> object:
    return row["value"] if isinstance(row, dict) else None


def _valid_reason(reason: str) -> str:
    if not 0 < len(reason.strip()) <= LONGEST_REASON:
        raise WrongReason("no reason, or too long a one", "--reason", f"give 1 to {LONGEST_REASON} characters")
    return reason
