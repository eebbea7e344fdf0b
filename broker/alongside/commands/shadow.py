"""``broker shadow``: compare our decisions with JEDI's; ``--gate`` tells whether work may be handed over."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from broker.alongside.answers.gate import doctor_problems, gate, gate_file
from broker.alongside.answers.gate_page import gate_page
from broker.alongside.answers.sentences import (
    CONSEQUENCES,
    CONSEQUENCES_TITLE,
    NOTHING,
    SHARES,
    SIDES,
    compared_sentences,
    consequence_cells,
    gate_cells,
    share_cells,
    verdict_sentence,
    window_sentence,
)
from broker.alongside.answers.shadow import shadow as shadow_of
from broker.alongside.answers.shadow_models import AgreementLine, Gate, Shadow
from broker.alongside.commands.shadow_plot import plot_shadow
from broker.brokerages.registry import offered
from broker.cli.context import SCENARIO_IF_LOADED, at_option, duration, moment_of, open_store, settings_of
from broker.cli.output import Column, print_json, print_table, say
from broker.cli.rendering.cells import Percent
from broker.cli.rendering.plotting import check_plot
from broker.errors import GATE_CLOSED, WRONG_USAGE, BrokerError
from broker.store.query_context import QueryContext, known_name

SHOWN_QUEUES = 20


class NeedsAGate(BrokerError):
    """The options cannot be combined."""

    exit_status = WRONG_USAGE


class CannotWritePage(BrokerError):
    """The page cannot be written."""


def show_gate(
    context: typer.Context,
    path: Path,
    at: str | None,
    given: Mapping[str, object],
    *,
    as_json: bool,
    html: Path | None,
    plot: Path | None,
) -> None:
    """Print the verdict; if the gate stays closed, the command ends with status 6.

    Raises:
        NeedsAGate: an option of ``given`` sets what the file sets, or what the verdict does not show.
        GateFileError: the file cannot be used.
        CannotWritePage: the page cannot be written.
    """
    for option, value in given.items():
        if value is not None:
            raise NeedsAGate(
                f"{option} does not go with --gate", option, f"leave out {option}: the file says what is looked at"
            )
    folder = settings_of(context).config
    criteria, where = gate_file(path, folder)
    check_plot(plot)
    with open_store(context) as database:
        until = moment_of(at, database, of_scenario=True)
        here = time.monotonic, time.sleep
        clean = criteria.doctor == "clean"
        problems = doctor_problems(database, folder, datetime.now(UTC), *here) if clean else []
        with database.read_snapshot() as connection:
            verdict = gate(QueryContext(connection, database.names, until, folder), criteria, where, problems)
    if html is not None:
        _write(html, gate_page(verdict))
    if plot is not None:
        plot_shadow(verdict.shadow, plot)
    if as_json:
        print_json(verdict)
    else:
        _show(verdict)
    if not verdict.passed:
        raise typer.Exit(GATE_CLOSED)


def _show(verdict: Gate) -> None:
    say(verdict_sentence(verdict))
    headings = ("brokerage", "label", "criterion", "", "found", "limit", "detail")
    print_table(headings, [gate_cells(line) for line in verdict.lines], title=f"Criteria of {verdict.where}")
    for note in verdict.shadow.notes:
        say(f"note: {note}")


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise CannotWritePage(f"the page cannot be written: {error.strerror}", str(path)) from error


LAST = typer.Option(
    "--last", metavar="24h", help="What PanDA did in this time.", show_default="24h; of a gate its days"
)
MAX_AGE = typer.Option(
    "--max-age",
    metavar="2h",
    help="How long a decision of ours is compared.",
    show_default="2h; of a gate its max_age_h",
)
LIMIT = typer.Option("--limit", min=1, help="Queues shown of each brokerage.", show_default=str(SHOWN_QUEUES))
GATE = typer.Option("--gate", metavar="FILE", help="Check every criterion of the file; exit status 6 if one fails.")
HTML = typer.Option("--html", metavar="FILE", help="Write one page with the verdict of --gate.")


def shadow(
    context: typer.Context,
    last: Annotated[str | None, LAST] = None,
    at: Annotated[str | None, at_option("Where the time of --last ends", without=SCENARIO_IF_LOADED)] = None,
    brokerage: Annotated[str | None, typer.Option("--brokerage", help="Only this brokerage.")] = None,
    max_age: Annotated[str | None, MAX_AGE] = None,
    limit: Annotated[int | None, LIMIT] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object on one line.")] = False,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg|png", help="Draw it.")] = None,
    gate: Annotated[Path | None, GATE] = None,
    html: Annotated[Path | None, HTML] = None,
) -> None:
    """Compare our decisions with what JEDI did, and show which rules made the differences."""
    if gate is not None:
        given = {"--last": last, "--max-age": max_age, "--brokerage": brokerage, "--limit": limit}
        show_gate(context, gate, at, given, as_json=as_json, html=html, plot=plot)
        return
    if html is not None:
        raise NeedsAGate("--html is the page of a gate", "--html", "name the criteria with --gate FILE")
    span, age = duration(last or "24h", "--last"), duration(max_age or "2h", "--max-age")
    name = None if brokerage is None else known_name("brokerage", brokerage, offered(), "--brokerage")
    check_plot(plot)
    with open_store(context) as database:
        until = moment_of(at, database, of_scenario=True)
        with database.read_snapshot() as connection:
            query = QueryContext(connection, database.names, until, settings_of(context).config)
            comparison = shadow_of(query, until - span, age, name)
    if as_json:
        print_json(comparison)
    else:
        show(comparison, limit or SHOWN_QUEUES)
    if plot is not None:
        plot_shadow(comparison, plot)


def show(comparison: Shadow, limit: int) -> None:
    """Print the answer as text."""
    if not any(line.compared_jobs or line.waits for line in comparison.brokerages):
        say(NOTHING)
    say(window_sentence(comparison))
    for sentence in compared_sentences(comparison):
        say(sentence)
    _print_rules(comparison)
    _print_queues(comparison, limit)
    print_table(CONSEQUENCES, [consequence_cells(one) for one in comparison.consequences], title=CONSEQUENCES_TITLE)
    _print_lines("By label", "label", [(one.label or "", one) for one in comparison.labels])
    _print_lines("By share", "share", [(one.share or "", one) for one in comparison.shares])
    _print_lines("By hour (UTC)", "hour", [(f"{one.hour:%Y-%m-%d %H}h", one) for one in comparison.hours])
    print_table(SHARES, [share_cells(one) for one in comparison.share_consequences], title="What shares get")


def _print_rules(comparison: Shadow) -> None:
    columns = (
        Column("brokerage", drop_order=2),
        Column("difference", drop_order=1),
        Column("code"),
        Column("jobs"),
        Column("waits", drop_order=2),
        Column("chunks"),
        Column("tasks", drop_order=3),
        Column("queues", drop_order=4),
        Column("such as", drop_order=5),
    )
    rows = [
        (
            rule.brokerage,
            SIDES[rule.side],
            rule.code,
            rule.jobs,
            rule.waits,
            rule.chunks,
            rule.tasks,
            rule.queues[:3],
            rule.such_as,
        )
        for rule in comparison.rules
    ]
    print_table(columns, rows, title="Differences, by the rule that made them")


def _print_queues(comparison: Shadow, limit: int) -> None:
    for line in comparison.brokerages:
        queues = [queue for queue in comparison.queues if queue.brokerage == line.brokerage]
        rows = [
            (
                queue.queue,
                queue.panda_jobs,
                round(queue.our_jobs, 1),
                round(queue.by_chance, 1),
                queue.agreed_jobs,
                queue.main_code or "",
            )
            for queue in queues[:limit]
        ]
        print_table(
            ("queue", "PanDA's jobs", "ours", "by chance +-", "agreed", "refused most for"),
            rows,
            title=f"{line.brokerage} by queue ({min(limit, len(queues))} of {len(queues)})",
        )


def _print_lines(title: str, heading: str, lines: list[tuple[str, AgreementLine]]) -> None:
    columns = ("brokerage", heading, "jobs", "compared", "agree", "at least", "chunks", "agree", "same place")
    rows = [
        (
            line.brokerage,
            name,
            line.jobs,
            line.compared_jobs,
            Percent(line.job_agreement),
            Percent(None if line.job_interval is None else line.job_interval.low),
            line.chunks,
            Percent(line.agreed_chunks / line.chunks if line.chunks else None),
            Percent(line.same_place),
        )
        for name, line in lines
    ]
    print_table(columns, rows, title=title)
