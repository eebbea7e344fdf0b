"""``broker acknowledge``: record that somebody is looking at an alarm."""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli.context import duration, open_store, query_context
from broker.cli.output import print_json
from broker.cli.rendering.cells import remark
from broker.errors import REFUSED
from broker.service.answers import acknowledging
from broker.service.answers.alarms import alarms
from broker.tuning.answers.values import Editor, editor_name

Code = Annotated[str, typer.Argument(metavar="ALARM", help="The kind of alarm.", show_default=False)]
About = Annotated[
    str | None,
    typer.Argument(metavar="[ABOUT]", help="The source, agent, task or queue [all of this kind]."),
]


def acknowledge(
    context: typer.Context,
    code: Code,
    about: About = None,
    reason: Annotated[str, typer.Option("--reason", help="What is done about it.", show_default=False)] = "",
    span: Annotated[str, typer.Option("--for", metavar="SPAN", help="How long it counts: 30m, 8h, 7d.")] = "8h",
    take_back: Annotated[bool, typer.Option("--take-back", help="Withdraw the acknowledgement.")] = False,
    editor: Editor = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object on one line.")] = False,
) -> None:
    """Acknowledge an alarm: broker alarms lists it below the others, with your name, until that ends.

    An alarm that becomes more severe counts as a new one. Who acknowledged what, and why, stays on record.
    """
    whose = editor_name(editor)
    if take_back:
        with open_store(context) as database, database.begin() as connection:
            acknowledged = acknowledging.take_back(connection, code, about, editor=whose)
    else:
        length = duration(span, "--for")
        acknowledging.checked(code, reason, length)
        with query_context(context) as query:
            current_alarms = alarms(query).alarms
        with open_store(context) as database, database.begin() as connection:
            acknowledged = acknowledging.acknowledge(
                connection, current_alarms, code, about, length, reason=reason, editor=whose
            )
    if as_json:
        print_json(acknowledged)
    elif acknowledged.about:
        remark(f"{code}: {'taken back' if take_back else f'acknowledged for {span}'}: {', '.join(acknowledged.about)}")
    else:
        remark(f"{code}: nobody had acknowledged it")
    if not acknowledged.about:
        raise typer.Exit(REFUSED)
