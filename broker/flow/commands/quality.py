"""``broker quality``: how far each cycle is from the best placement of its jobs, by share, cause and rule."""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli.context import query_context
from broker.cli.output import Column, print_json, print_table, remark
from broker.flow.answers.quality import BesidePanda, CycleQuality, Quality, quality, quality_sentence
from broker.service.answers.alarms import load_limits

app = typer.Typer(help="Quality of decisions, compared with the best placement of the same jobs.", no_args_is_help=True)
MOST_LINES = 8


@app.command()
def show(
    context: typer.Context,
    brokerage: Annotated[str | None, typer.Option("--brokerage", help="Only this brokerage.")] = None,
    hours: Annotated[float, typer.Option("--hours", min=0.01, max=24 * 35, help="Hours to look back.")] = 24.0,
    cycles: Annotated[int, typer.Option("--cycles", min=1, max=2000, help="Maximum number, newest first.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One object on stdout.")] = False,
) -> None:
    """Compare each cycle with the best placement of its jobs, by share, cause and rule."""
    with query_context(context) as query:
        limits = load_limits(query.config).drift
        answer = quality(query, limits, hours=hours, brokerage=brokerage, cycles=cycles)
    if as_json:
        print_json(answer)
        return
    remark(quality_sentence(answer))
    _show_cycles(answer)
    newest = next((cycle for cycle in answer.cycles if cycle.state == "measured"), None)
    if newest is not None:
        _show_newest(newest)
    priced = next((cycle for cycle in answer.cycles if cycle.beside is not None), None)
    if priced is not None:
        _show_beside(priced, priced.beside)


def _show_cycles(answer: Quality) -> None:
    columns = (
        Column("decided"),
        Column("brokerage"),
        Column("placed by", drop_order=4),
        Column("jobs"),
        Column("dearer %"),
        Column("HS06 h", drop_order=2),
        Column("moved GB", drop_order=3),
        Column("best GB", drop_order=3),
        Column("in vain %"),
        Column("state", drop_order=1),
    )
    rows = [
        (
            f"{cycle.decided_at:%Y-%m-%d %H:%M:%S}Z", cycle.brokerage, cycle.placer, cycle.jobs,
            _or_dash(cycle.regret_percent), f"{cycle.regret_hs06h:.0f}", f"{cycle.gb:.0f}", f"{cycle.best_gb:.0f}",
            _or_dash(cycle.bytes_percent), cycle.state,
        )
        for cycle in answer.cycles
    ]  # fmt: skip
    print_table(columns, rows, title=f"Cycles beside the best placement: {len(rows)}")


def _show_newest(cycle: CycleQuality) -> None:
    when = f"{cycle.brokerage} at {cycle.decided_at:%H:%M:%S}Z"
    shares = [(line.share, line.jobs, f"{line.regret_hs06h:.0f}") for line in cycle.shares[:MOST_LINES]]
    print_table(("share", "jobs", "regret HS06 h"), shares, title=f"Shares, {when}")
    causes = [
        (line.cause.replace("_", " "), f"{line.cost_hs06h:.0f}", f"{line.best_hs06h:.0f}") for line in cycle.causes
    ]
    print_table(("cause", "HS06 h", "at best"), causes, title=f"Causes, {when}")
    rules = [
        (line.code, line.chunks, f"{'at most ' if line.at_most else ''}{line.hs06h:.0f}")
        for line in cycle.rules[:MOST_LINES]
    ]
    print_table(("rule", "chunks", "without it, HS06 h less"), rules, title=f"What rules cost, {when}")


def _show_beside(cycle: CycleQuality, beside: BesidePanda | None) -> None:
    if beside is None:
        return
    rows: list[tuple[str, str, str]] = [
        (f"{line.cause.replace('_', ' ')}, HS06 h", f"{line.ours_hs06h:.0f}", f"{line.panda_hs06h:.0f}")
        for line in beside.parts
    ]
    rows.append(("moved, GB", f"{beside.our_gb:.0f}", f"{beside.panda_gb:.0f}"))
    title = f"The same {cycle.jobs} jobs of {beside.chunks} chunks, {cycle.brokerage} at {cycle.decided_at:%H:%M:%S}Z"
    print_table(("what they cost", "where ours placed them", "where PanDA did"), rows, title=title)
    for left in beside.unknown:
        remark(f"{left.jobs} jobs of PanDA's are not compared: {left.reason.replace('_', ' ')}")


def _or_dash(value: float | None) -> object:
    return "-" if value is None else value
