"""``broker history`` (also ``broker story``): what happened to one task, and what changed alongside."""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli.context import duration, moment_of, open_store, settings_of
from broker.cli.elsewhere import RemoteAnswer
from broker.cli.output import print_json, print_table
from broker.cli.rendering.plotting import Plot, check_plot
from broker.history.answers.history import History, event_sentence, history as history_of
from broker.store.query_context import QueryContext


def history(
    context: typer.Context,
    task: Annotated[int, typer.Argument(help="The task (jeditaskid).")],
    last: Annotated[str | None, typer.Option("--last", metavar="SPAN", help="Such as 24h or 7d [all].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object per event.")] = False,
    plot: Plot = None,
) -> None:
    """Show what happened to a task: decisions with repeats folded, and changes of tuning, queues, sources and pins."""
    span = None if last is None else duration(last, "--last")
    check_plot(plot)
    with open_store(context) as database:
        now = moment_of(None, database, of_scenario=True)
        since = None if span is None else now - span
        with database.read_snapshot() as connection:
            query = QueryContext(connection, database.names, now, settings_of(context).config)
            record = history_of(query, task, since)
    if plot is not None:
        from broker.history.commands.history_picture import plot_history

        plot_history(record, plot)
    if as_json:
        for event in record.events:
            print_json(event)
        return
    show_history(record)


def show_history(record: History) -> None:
    """Print what happened to a task as a table."""
    rows = [(event.at, event.event, event_sentence(event)) for event in record.events]
    print_table(("at", "event", ""), rows, title=f"Task {record.jeditaskid}")


ELSEWHERE = RemoteAnswer(lambda client, given: client.history(given["task"]), History, show_history, "events")
