"""``broker shadow``: our decisions beside what JEDI really did."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from broker.alongside.answers.sentences import NOTHING, SIDES, UNCOMPARED, agreement_sentence
from broker.alongside.answers.shadow import shadow as shadow_of
from broker.alongside.answers.shadow_models import AgreementLine, Shadow
from broker.alongside.commands.shadow_plot import plot_shadow
from broker.brokerages.registry import offered
from broker.cli.context import open_store, settings_of
from broker.cli.rendering.cells import Percent
from broker.cli.rendering.json_lines import print_json
from broker.cli.rendering.tables import Column, print_table, say
from broker.cli.time_arguments import SCENARIO_IF_LOADED, at_option, duration, moment_of
from broker.store.query_context import Asking, known_name
from broker.whatif.model.plot import check_plot


def shadow(
    context: typer.Context,
    last: Annotated[str, typer.Option("--last", metavar="24h", help="What PanDA did in this time.")] = "24h",
    at: Annotated[str | None, at_option("Where the time of --last ends", without=SCENARIO_IF_LOADED)] = None,
    brokerage: Annotated[str | None, typer.Option("--brokerage", help="Only this brokerage.")] = None,
    max_age: Annotated[
        str, typer.Option("--max-age", metavar="2h", help="For so long a decision of ours is compared.")
    ] = "2h",
    limit: Annotated[int, typer.Option("--limit", min=1, help="Queues that are shown of each brokerage.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One object on one line.")] = False,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg|png", help="Draw it.")] = None,
) -> None:
    """How far our decisions agree with what JEDI really did, and which rules made the differences."""
    span, age = duration(last, "--last"), duration(max_age, "--max-age")
    name = None if brokerage is None else known_name("brokerage", brokerage, offered(), "--brokerage")
    if plot is not None:
        check_plot(plot)
    with open_store(context) as database:
        until = moment_of(at, database, of_scenario=True)
        with database.read_snapshot() as connection:
            asking = Asking(connection, database.names, until, settings_of(context).config)
            found = shadow_of(asking, until - span, age, name)
    if as_json:
        print_json(found)
    else:
        show(found, limit)
    if plot is not None:
        plot_shadow(found, plot)


def show(found: Shadow, limit: int) -> None:
    """Print the answer for people."""
    if not any(line.compared_jobs or line.waits for line in found.brokerages):
        say(NOTHING)
    for line in found.brokerages:
        say(agreement_sentence(line))
    _print_rules(found)
    _print_queues(found, limit)
    _print_lines("By share", "share", [(one.share or "", one) for one in found.shares])
    _print_lines("By hour (UTC)", "hour", [(f"{one.hour:%Y-%m-%d %H}h", one) for one in found.hours])
    if found.uncompared:
        rows = [(one.brokerage, UNCOMPARED[one.reason], one.jobs, one.waits) for one in found.uncompared]
        print_table(("brokerage", "why", "jobs", "waits"), rows, title="Not compared")


def _print_rules(found: Shadow) -> None:
    columns = (
        Column("brokerage", give_up=2),
        Column("difference", give_up=1),
        Column("code"),
        Column("jobs"),
        Column("chunks"),
        Column("tasks", give_up=3),
        Column("queues", give_up=4),
        Column("such as", give_up=5),
    )
    rows = [
        (one.brokerage, SIDES[one.side], one.code, one.jobs, one.chunks, one.tasks, one.queues[:3], one.such_as)
        for one in found.rules
    ]
    print_table(columns, rows, title="Differences, by the rule that made them")


def _print_queues(found: Shadow, limit: int) -> None:
    for line in found.brokerages:
        own = [one for one in found.queues if one.brokerage == line.brokerage]
        rows = [
            (one.queue, one.panda_jobs, round(one.our_jobs, 1), one.agreed_jobs, one.main_code or "")
            for one in own[:limit]
        ]
        print_table(
            ("queue", "PanDA's jobs", "ours", "agreed", "refused most for"),
            rows,
            title=f"{line.brokerage} by queue ({min(limit, len(own))} of {len(own)})",
        )


def _print_lines(title: str, heading: str, lines: list[tuple[str, AgreementLine]]) -> None:
    columns = ("brokerage", heading, "jobs", "compared", "agree", "chunks", "agree", "same place")
    rows = [
        (
            one.brokerage,
            name,
            one.jobs,
            one.compared_jobs,
            Percent(one.job_agreement),
            one.chunks,
            Percent(one.agreed_chunks / one.chunks if one.chunks else None),
            Percent(one.same_place),
        )
        for name, one in lines
    ]
    print_table(columns, rows, title=title)
