"""``broker pilots``: how many pilots each queue could use, and what makes the number what it is."""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli.context import query_context
from broker.cli.output import Column, print_json, print_table, remark
from broker.pilots.answers.pilot_demand import pilot_demand

app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Pilots: how many each queue could use, and those that the agent submitter has sent."""


@app.command()
def demand(
    context: typer.Context,
    queue: Annotated[str | None, typer.Argument(metavar="[QUEUE]", help="One queue [all with jobs or pilots].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object per line.")] = False,
) -> None:
    """Show how many new pilots of which kind each queue could use, as the agent pilot_demand last counted, and why."""
    with query_context(context) as query:
        demands = pilot_demand(query.connection, query.names, queue)
        now = query.now
    if as_json:
        for one in demands:
            print_json(one)
        return
    if not demands:
        remark("nothing is counted: no queue has jobs that wait for pilots, or the agent pilot_demand has not run yet")
        return
    columns = (
        "queue", "type", "wanted", "jobs", "fit", Column("wait", 2), Column("run", 2), Column("surplus", 1), "why",
    )  # fmt: skip
    lines = [
        (queue, row.resource_type, row.wanted, row.jobs, row.fitting, row.waiting, row.running, row.surplus, why)
        for queue, row, why in (
            (one.counted.panda_queue, one.counted.demand, one.why.partition(": ")[2]) for one in demands
        )
    ]
    age_s = (now - demands[0].counted.counted_at).total_seconds()
    print_table(columns, lines, title=f"Wanted pilots, counted {max(age_s, 0):.0f} s ago")
