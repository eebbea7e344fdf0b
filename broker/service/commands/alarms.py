"""``broker alarms``: stale sources, idle agents, failing queues and whatever else needs attention."""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli.context import query_context
from broker.cli.elsewhere import RemoteAnswer
from broker.cli.output import Column, print_json, print_table
from broker.cli.rendering.cells import TimeWithAge
from broker.service.answers.alarm_sentences import alarm_lines
from broker.service.answers.alarms import alarms as all_alarms
from broker.service.answers.models import Alarms


def alarms(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="One object per alarm.")] = False
) -> None:
    """List what is stale, overdue, refused, paused, starving, flapping or failing, most severe first.

    The limits are in config/alarms.yaml.
    """
    with query_context(context) as query:
        answer = all_alarms(query)
    if as_json:
        for alarm in answer.alarms:
            print_json(alarm)
        return
    show_alarms(answer)


def show_alarms(answer: Alarms) -> None:
    """Print alarms as a table."""
    # instants by the database's clock may be later than the clock of a scenario
    lines = alarm_lines(answer.alarms)
    looked_at = any(line.looked_at for line in lines)
    rows = []
    for line in lines:
        since = TimeWithAge(line.since, max(answer.now, line.since or answer.now))
        rows.append(
            (line.severity, line.code, line.sentence, since, line.key, *([line.looked_at] if looked_at else []))
        )
    columns = [
        Column("severity"),
        Column("alarm"),
        Column("what"),
        Column("since", drop_order=2),
        Column("limit", drop_order=1),
    ]
    if looked_at:
        columns.append(Column("looks at it", drop_order=3))
    print_table(columns, rows, title="Alarms")


ELSEWHERE = RemoteAnswer(lambda client, given: client.alarms(), Alarms, show_alarms, "alarms")
