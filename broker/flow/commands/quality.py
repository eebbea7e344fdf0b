"""``broker quality``: how good decisions were."""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli.context import asked
from broker.cli.output import Column, print_json, print_table, remark
from broker.flow.answers.quality import BesidePanda, CycleQuality, Quality, quality, quality_sentence
from broker.service.answers.alarms import load_limits

app = typer.Typer(help="How good decisions were, beside the best placement of the same jobs.", no_args_is_help=True)
MOST_LINES = 8


@app.command()
def show(
    context: typer.Context,
    brokerage: Annotated[str | None, typer.Option("--brokerage", help="Of this one only.")] = None,
    hours: Annotated[float, typer.Option("--hours", min=0.01, max=24 * 35, help="Of the last so many hours.")] = 24.0,
    cycles: Annotated[int, typer.Option("--cycles", min=1, max=2000, help="At most so many, the newest.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One object on stdout.")] = False,
) -> None:
    """Each cycle beside the best placement of its jobs, by share, cause and rule."""
    with asked(context) as asking:
        limits = load_limits(asking.config).drift
        found = quality(asking, limits, hours=hours, brokerage=brokerage, cycles=cycles)
    if as_json:
        print_json(found)
        return
    remark(quality_sentence(found))
    _show_cycles(found)
    newest = next((one for one in found.cycles if one.state == "measured"), None)
    if newest is not None:
        _show_newest(newest)
    priced = next((one for one in found.cycles if one.beside is not None), None)
    if priced is not None:
        _show_beside(priced, priced.beside)


def _show_cycles(found: Quality) -> None:
    columns = (
        Column("decided"), Column("brokerage"), Column("placed by", give_up=4), Column("jobs"),
        Column("dearer %"), Column("HS06 h", give_up=2), Column("moved GB", give_up=3), Column("best GB", give_up=3),
        Column("in vain %"), Column("state", give_up=1),
    )  # fmt: skip
    rows = [
        (
            f"{one.decided_at:%Y-%m-%d %H:%M:%S}Z", one.brokerage, one.placer, one.jobs, _or_dash(one.regret_percent),
            f"{one.regret_hs06h:.0f}", f"{one.gb:.0f}", f"{one.best_gb:.0f}", _or_dash(one.bytes_percent), one.state,
        )
        for one in found.cycles
    ]  # fmt: skip
    print_table(columns, rows, title=f"Cycles beside the best placement: {len(rows)}")


def _show_newest(one: CycleQuality) -> None:
    when = f"{one.brokerage} at {one.decided_at:%H:%M:%S}Z"
    shares = [(line.share, line.jobs, f"{line.regret_hs06h:.0f}") for line in one.shares[:MOST_LINES]]
    print_table(("share", "jobs", "regret HS06 h"), shares, title=f"Shares, {when}")
    causes = [(line.cause.replace("_", " "), f"{line.cost_hs06h:.0f}", f"{line.best_hs06h:.0f}") for line in one.causes]
    print_table(("cause", "HS06 h", "at best"), causes, title=f"Causes, {when}")
    rules = [
        (line.code, line.chunks, f"{'at most ' if line.at_most else ''}{line.hs06h:.0f}")
        for line in one.rules[:MOST_LINES]
    ]
    print_table(("rule", "chunks", "without it, HS06 h less"), rules, title=f"What rules cost, {when}")


def _show_beside(one: CycleQuality, beside: BesidePanda | None) -> None:
    if beside is None:
        return
    rows: list[tuple[str, str, str]] = [
        (f"{line.cause.replace('_', ' ')}, HS06 h", f"{line.ours_hs06h:.0f}", f"{line.panda_hs06h:.0f}")
        for line in beside.parts
    ]
    rows.append(("moved, GB", f"{beside.our_gb:.0f}", f"{beside.panda_gb:.0f}"))
    title = f"The same {one.jobs} jobs of {beside.chunks} chunks, {one.brokerage} at {one.decided_at:%H:%M:%S}Z"
    print_table(("what they cost", "where ours placed them", "where PanDA did"), rows, title=title)
    for left in beside.unknown:
        remark(f"{left.jobs} jobs of PanDA's are not compared: {left.reason.replace('_', ' ')}")


def _or_dash(value: float | None) -> object:
    return "-" if value is None else value
