"""``broker task subscribe|unsubscribe|subscriptions``: who is told what becomes of a task."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from broker.cli.context import asked, open_store, settings_of
from broker.cli.output import Column, print_json, print_table
from broker.notifications.answers import subscriptions
from broker.notifications.answers.subscriptions import Subscriber, TaskSubscriptions
from broker.tuning.answers.values import Editor, editor_name

Task = Annotated[int, typer.Argument(metavar="TASK", min=1, help="The task (jeditaskid).")]
To = Annotated[str, typer.Option("--to", help="A mail address, or a channel for subscribers of broker notify list.")]
Json = Annotated[bool, typer.Option("--json", help="One object on stdout.")]


def subscribe(context: typer.Context, task: Task, to: To, editor: Editor = None, as_json: Json = False) -> None:
    """Have somebody told, once each, when the work of a task waits for long and when the task has ended."""
    with open_store(context) as database:
        by = Subscriber(editor_name(editor))
        folder = settings_of(context).config
        found = subscriptions.subscribe(database, folder, task, to, by, datetime.now(UTC))
    _show(found, as_json)


def unsubscribe(context: typer.Context, task: Task, to: To, editor: Editor = None, as_json: Json = False) -> None:
    """End a subscription."""
    with open_store(context) as database:
        by = Subscriber(editor_name(editor))
        folder = settings_of(context).config
        found = subscriptions.unsubscribe(database, folder, task, to, by, datetime.now(UTC))
    _show(found, as_json)


def list_subscriptions(context: typer.Context, task: Task, as_json: Json = False) -> None:
    """Who is told of a task, and who was."""
    with asked(context) as asking:
        found = subscriptions.subscriptions_of(asking, task)
    _show(found, as_json)


def _show(found: TaskSubscriptions, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = [
        (one.to, one.subscribed_at, one.subscribed_by, one.told_waits_at, one.ended_at, one.ended_because or "-")
        for one in found.subscriptions
    ]
    columns = ("to", "since", "by", Column("told_waits", give_up=2), "ended", Column("because", give_up=1))
    print_table(columns, rows, title=f"Subscriptions to task {found.jeditaskid}")
