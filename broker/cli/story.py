"""``broker story``: the timeline of one task."""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli.context import open_store
from broker.cli.explain import NothingDecided
from broker.cli.moments import duration, moment_of
from broker.cli.output import print_json, print_table
from broker.cli.story_words import sentences
from broker.store.story import story as story_of
from broker.store.story_reads import read_record


def story(
    context: typer.Context,
    task: Annotated[int, typer.Argument(help="The task (jeditaskid).")],
    last: Annotated[str | None, typer.Option("--last", metavar="SPAN", help="Such as 24h or 7d [all].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object an event.")] = False,
) -> None:
    """The timeline of one task: decisions, changes of reason, versions of the tuning, status, timeouts and moves."""
    span = None if last is None else duration(last, "--last")
    with open_store(context) as database:
        since = None if span is None else moment_of("now", database) - span
        with database.read_snapshot() as connection:
            events = story_of(read_record(connection, database.names, task, since))
    if not events:
        raise NothingDecided(
            f"nothing is on record about task {task}", "broker.decisions", "see broker run --task, or a longer --last"
        )
    if as_json:
        for event in events:
            print_json(event)
        return
    print_table(("at", "until", "event", ""), list(sentences(events)), title=f"Task {task}")
