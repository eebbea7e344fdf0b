"""``broker queue``: the history of a queue, and the fields of it that an operator holds."""

from __future__ import annotations

import json as json_format
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker.cli.context import duration, end_of, moment_of, open_store
from broker.cli.elsewhere import Arguments, Documents, RemoteDocuments
from broker.cli.output import print_json, print_table, remark
from broker.domain.queue_fields import BadFieldValue, field_value
from broker.errors import REFUSED, WRONG_USAGE, BrokerError
from broker.feeds.statements.feed_runs import ChangeRecord, changes_of_queue
from broker.feeds.statements.queue_pins import EndedPin, Pin, end_pin, held_pins, pins_of_queue, set_pin
from broker.grid.commands.queues import SHOW_ELSEWHERE, show_queue
from broker.store.connection.database import Database
from broker.store.query_context import known_name
from broker.store.reads.grid_names import queue_names
from broker.tuning.answers.values import Editor, editor_name

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient

app = typer.Typer(no_args_is_help=True)
app.command(name="show")(show_queue)

Queue = Annotated[str, typer.Argument(help="The queue.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]
LONGEST_REASON = 500


class WrongPin(BrokerError):
    """The argument is not a valid pin."""

    exit_status = WRONG_USAGE


@app.command()
def history(
    context: typer.Context,
    queue: Queue,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=100_000, help="Maximum number of changes, newest first.")
    ] = 100,
    json: Json = False,
) -> None:
    """List what changed of a queue and when: by feeds, field by field, and by operators who pinned a field."""
    with open_store(context) as database, database.begin() as connection:
        changes, pins = changes_of_queue(connection, queue, limit), pins_of_queue(connection, queue, limit)
        if not changes and not pins:  # a queue that CRIC no longer lists may still have a history
            queue = known_name("queue", queue, queue_names(connection, database.names), "schedconfig_json")
            changes, pins = changes_of_queue(connection, queue, limit), pins_of_queue(connection, queue, limit)
        now = moment_of(None, database)
    events = [
        *(event for change in changes for event in _changed(change)),
        *(event for pin in pins for event in _pin(pin, now)),
    ]
    events.sort(key=lambda event: event["time"], reverse=True)
    if json:
        for event in events[:limit]:
            print_json(event)
        return
    columns = ("time", "by", "what", "field", "before", "after", "reason")
    print_table(columns, [[event[name] for name in columns] for event in events[:limit]], title=f"History of {queue}")


@app.command(name="set")
def set_fields(
    context: typer.Context,
    queue: Queue,
    values: Annotated[list[str], typer.Argument(metavar="FIELD=VALUE...", show_default=False)],
    reason: Annotated[str, typer.Option("--reason", help="Reason, for the history.", show_default=False)],
    ends: Annotated[
        str, typer.Option("--until", metavar="TIME|LENGTH", help="When the pin ends: a time (UTC), 8h, 7d.")
    ],
    editor: Editor = None,
    json: Json = False,
) -> None:
    """Pin fields of a queue until some time, regardless of CRIC; status=brokeroff closes it."""
    held = dict(_pair(text) for text in values)
    if not 0 < len(reason.strip()) <= LONGEST_REASON:
        raise WrongPin("no reason, or too long a one", "--reason", f"give 1 to {LONGEST_REASON} characters")
    author = editor_name(editor)
    with open_store(context) as database:
        now = moment_of(None, database)
        end = end_of(ends, now)
        with database.begin() as connection:
            queue = known_name("queue", queue, queue_names(connection, database.names), "schedconfig_json")
            for field, value in held.items():
                set_pin(connection, queue, field, value, reason=reason, editor=author, now=now, until=end)
            pins = {pin.field: pin.line(now) for pin in held_pins(connection, now, queue)}
    for field, value in held.items():
        if json:
            print_json(pins[field])
        else:
            remark(f"{queue}: {field} is held at {value} until {end.isoformat()}")


@app.command()
def unset(
    context: typer.Context,
    queue: Queue,
    fields: Annotated[list[str], typer.Argument(metavar="FIELD...", show_default=False)],
    editor: Editor = None,
    json: Json = False,
) -> None:
    """Unpin fields of a queue; the values of CRIC count again."""
    author = editor_name(editor)
    with open_store(context) as database:
        ended = _unset(database, queue, fields, author)
    for field, was_held in ended.items():
        if json:
            print_json(EndedPin(queue=queue, field=field, ended=was_held))
        else:
            remark(f"{queue}: {field} is held no longer" if was_held else f"{queue}: {field} was not held")
    if not all(ended.values()):
        raise typer.Exit(REFUSED)


def _unset(database: Database, queue: str, fields: list[str], editor: str) -> dict[str, bool]:
    now = moment_of(None, database)
    with database.begin() as connection:
        if not pins_of_queue(connection, queue, 1):
            queue = known_name("queue", queue, queue_names(connection, database.names), "schedconfig_json")
        return {field: end_pin(connection, queue, field, editor=editor, now=now) for field in fields}


def _pair(text: str) -> tuple[str, Any]:
    field, separator, value = text.partition("=")
    if not separator:
        raise WrongPin(f"not FIELD=VALUE: {text[:80]}", "broker queue set", "write it as status=brokeroff")
    try:
        return field, field_value(field, value)
    except BadFieldValue as error:
        raise WrongPin(str(error), f"{field}={value[:80]}", error.accepts) from error


def _changed(change: ChangeRecord) -> list[dict[str, Any]]:
    where = change.table if len(change.key) == 1 else f"{change.table} {' '.join(change.key[1:])}"
    common = {"time": change.changed_at, "by": "feed", "what": f"{where}: {change.kind}", "reason": ""}
    if not change.fields:
        return [{**common, "field": "", "before": None, "after": None}]
    return [
        {**common, "field": name, "before": _short(pair[0]), "after": _short(pair[1])}
        for name, pair in sorted(change.fields.items())
    ]


def _pin(pin: Pin, now: datetime) -> list[dict[str, Any]]:
    value = _short(pin.value)
    common = {"field": pin.field, "reason": pin.reason}
    set_by = {"time": pin.set_at, "by": pin.editor, "what": f"held until {pin.until.isoformat()}"}
    events = [{**common, **set_by, "before": None, "after": value}]
    if not pin.holds(now):
        ended_at = pin.until if pin.ended_at is None else pin.ended_at
        by = pin.ended_by or "by itself"
        events.append({**common, "time": ended_at, "by": by, "what": "held no longer", "before": value, "after": None})
    return events


def _short(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else json_format.dumps(value)


def _pins(client: BrokerClient, given: Arguments) -> Documents:
    for_s = duration(given["ends"], "--until").total_seconds()
    for text in given["values"]:
        field, _, value = text.partition("=")
        yield client.pin(given["queue"], field, value, reason=given["reason"], for_s=for_s)


def _unpin(client: BrokerClient, given: Arguments) -> Documents:
    return [client.unpin(given["queue"], field) for field in given["fields"]]


ELSEWHERE = {"show": SHOW_ELSEWHERE, "set": RemoteDocuments(_pins), "unset": RemoteDocuments(_unpin)}
