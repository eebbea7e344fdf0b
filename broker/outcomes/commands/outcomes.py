"""``broker outcomes``: how jobs end at queues, and which queues and nodes are closed as a result."""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli.context import query_context
from broker.cli.output import Column, print_json, print_table, remark
from broker.outcomes.answers.outcomes import Outcomes, outcomes_answer

MOST_CLASSES = 3


def outcomes(
    context: typer.Context,
    queue: Annotated[str | None, typer.Option("--queue", help="Only this queue.")] = None,
    hours: Annotated[
        float, typer.Option("--hours", min=0.01, max=24 * 35, help="Only jobs that ended within this many hours.")
    ] = 24.0,
    as_json: Annotated[bool, typer.Option("--json", help="One object on stdout.")] = False,
) -> None:
    """Show how jobs ended at each queue, by kind, and which queues and nodes are suspected, closed or on probation."""
    with query_context(context) as query:
        answer = outcomes_answer(query, hours=hours, queue=queue)
    if as_json:
        print_json(answer)
        return
    _show(answer, hours)


def _show(answer: Outcomes, hours: float) -> None:
    columns = (
        Column("queue"), Column("kind"), Column("finished"), Column("failed"), Column("failed %"),
        Column("lost", drop_order=4), Column("closed", drop_order=3), Column("core h", drop_order=2),
        Column("wait min", drop_order=5), Column("errors", drop_order=1),
    )  # fmt: skip
    rows = [
        (
            one.queue, one.kind, one.finished, one.failed, _or_dash(one.failed_percent), one.lost, one.closed,
            f"{one.core_h:.0f}", _or_dash(one.wait_min),
            ", ".join(f"{name} {count}" for name, count in list(one.by_class.items())[:MOST_CLASSES]) or "-",
        )
        for one in answer.queues
    ]  # fmt: skip
    print_table(columns, rows, title=f"Jobs that ended within {hours:g} h")
    if answer.unhealthy:
        places = [(one.queue, one.node or "-", one.state, one.sentence) for one in answer.unhealthy]
        print_table(("queue", "node", "state", "what"), places, title="Queues and nodes that are not healthy")
    else:
        remark("no queue or node is suspected or closed")


def _or_dash(value: float | None) -> object:
    return "-" if value is None else value
