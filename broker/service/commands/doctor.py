"""``broker doctor``: what stands in the way of running on this database."""

from __future__ import annotations

import dataclasses
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from broker.cli.context import moment_of, open_store, settings_of
from broker.cli.output import Column, print_json, print_table, remark
from broker.errors import DONE, FAILED
from broker.fetching.documents import Surroundings
from broker.grid.answers.readiness import readiness
from broker.service.answers.examination import all_findings
from broker.store.query_context import Asking

MOST_NAMED = 20
"""So many of what cannot be used are named below the table; all of them are in --json."""


def doctor(
    context: typer.Context,
    ready: Annotated[
        bool, typer.Option("--ready", help="Instead: what the first job needs, and what of it is missing.")
    ] = False,
    plugin_calls: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where the plug-in counts what it cannot write [data folder of the account]."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a finding on stdout.")] = False,
) -> None:
    """Rights, missing columns, ages of statistics, clocks, who we are to PanDA, and which of its daemons act too."""
    if ready:
        raise typer.Exit(_show_ready(context, json))
    here = Surroundings(time.monotonic, lambda: 0.5, time.sleep)
    with open_store(context) as database:
        findings = all_findings(database, settings_of(context).config, datetime.now(UTC), here, plugin_calls)
    if json:
        for one in findings:
            print_json(dataclasses.asdict(one))
    else:
        print_table(("topic", "", "finding", "what to do"), [(f.topic, f.level, f.what, f.remedy) for f in findings])
    if any(one.level == "problem" for one in findings):
        raise typer.Exit(FAILED)


def _show_ready(context: typer.Context, as_json: bool) -> int:
    """Show the check list of an installation before its first job; the exit status."""
    with open_store(context) as database:
        now = moment_of(None, database, of_scenario=True)
        with database.read_snapshot() as connection:
            found = readiness(Asking(connection, database.names, now, settings_of(context).config))
    for one in found if as_json else ():
        print_json(dataclasses.asdict(one))
    problems = [one for one in found if one.level == "problem"]
    if not as_json:
        columns = ("topic", "", Column("usable", 2), "finding", Column("what to do", 1))
        rows = [(one.topic, one.level, _number(one.usable, one.of), one.finding, one.remedy) for one in found]
        print_table(columns, rows, title="What the first job needs")
        named = [(one.topic, name, why) for one in found for name, why in one.why_not.items()]
        if named:
            print_table(("topic", "name", "cannot be used"), named[:MOST_NAMED])
        if len(named) > MOST_NAMED:
            remark(f"{len(named) - MOST_NAMED} more in --json")
        remark(f"not ready: {', '.join(one.topic for one in problems)}" if problems else "ready")
    return FAILED if problems else DONE


def _number(usable: int | None, of: int | None) -> str:
    return "" if usable is None else f"{usable} of {of}"
