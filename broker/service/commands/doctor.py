"""``broker doctor``: obstacles to running on this database."""

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
from broker.store.query_context import QueryContext

MOST_NAMED = 20
"""Maximum number of unusable items named below the table; --json lists all of them."""


def doctor(
    context: typer.Context,
    ready: Annotated[
        bool, typer.Option("--ready", help="Instead, show what the first job needs, and what of it is missing.")
    ] = False,
    plugin_calls: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where the plug-in counts what it cannot write [data folder of the account]."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per finding on stdout.")] = False,
) -> None:
    """Check rights, missing columns, ages of statistics, clocks, who we are to PanDA, which of its daemons act too."""
    if ready:
        raise typer.Exit(_show_ready(context, json))
    surroundings = Surroundings(time.monotonic, lambda: 0.5, time.sleep)
    with open_store(context) as database:
        findings = all_findings(database, settings_of(context).config, datetime.now(UTC), surroundings, plugin_calls)
    if json:
        for finding in findings:
            print_json(dataclasses.asdict(finding))
    else:
        print_table(("topic", "", "finding", "what to do"), [(f.topic, f.level, f.what, f.remedy) for f in findings])
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(FAILED)


def _show_ready(context: typer.Context, as_json: bool) -> int:
    """Show the checklist of an installation before its first job; return the exit status."""
    with open_store(context) as database:
        now = moment_of(None, database, of_scenario=True)
        with database.read_snapshot() as connection:
            checks = readiness(QueryContext(connection, database.names, now, settings_of(context).config))
    for check in checks if as_json else ():
        print_json(dataclasses.asdict(check))
    problems = [check for check in checks if check.level == "problem"]
    if not as_json:
        columns = ("topic", "", Column("usable", 2), "finding", Column("what to do", 1))
        rows = [
            (check.topic, check.level, _number(check.usable, check.of), check.finding, check.remedy) for check in checks
        ]
        print_table(columns, rows, title="What the first job needs")
        unusable = [(check.topic, name, why) for check in checks for name, why in check.why_not.items()]
        if unusable:
            print_table(("topic", "name", "cannot be used"), unusable[:MOST_NAMED])
        if len(unusable) > MOST_NAMED:
            remark(f"{len(unusable) - MOST_NAMED} more in --json")
        remark(f"not ready: {', '.join(check.topic for check in problems)}" if problems else "ready")
    return FAILED if problems else DONE


def _number(usable: int | None, of: int | None) -> str:
    return "" if usable is None else f"{usable} of {of}"
