"""``broker alarms``: what somebody should look at."""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli.context import asked
from broker.cli.output import Column, print_json, print_table
from broker.cli.rendering.cells import Since
from broker.service.answers.alarm_sentences import alarm_lines
from broker.service.answers.alarms import alarms as all_alarms
from broker.service.answers.models import Alarms


def alarms(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="One object an alarm.")] = False
) -> None:
    """What is stale, overdue, refused, paused, starving, flapping or failing, the gravest first.

    The limits are in config/alarms.yaml.
    """
    with asked(context) as asking:
        found = all_alarms(asking)
    if as_json:
        for alarm in found.alarms:
            print_json(alarm)
        return
    show_alarms(found)


def show_alarms(found: Alarms) -> None:
    """Print alarms as a table."""
    # what is of the database's clock may be later than that of a scenario
    lines = alarm_lines(found.alarms)
    looked_at = any(one.looked_at for one in lines)
    rows = []
    for one in lines:
        since = Since(one.since, max(found.now, one.since or found.now))
        rows.append((one.severity, one.code, one.sentence, since, one.key, *([one.looked_at] if looked_at else [])))
    columns = [
        Column("severity"),
        Column("alarm"),
        Column("what"),
        Column("since", give_up=2),
        Column("limit", give_up=1),
    ]
    if looked_at:
        columns.append(Column("looks at it", give_up=3))
    print_table(columns, rows, title="Alarms")
