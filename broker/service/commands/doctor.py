"""``broker doctor``: what stands in the way of running on this database."""

from __future__ import annotations

import dataclasses
import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from broker.cli.context import open_store, settings_of
from broker.cli.output import print_json, print_table
from broker.errors import FAILED
from broker.fetching.terms import Surroundings
from broker.service.answers.examination import all_findings


def doctor(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a finding on stdout.")] = False,
) -> None:
    """Rights, missing columns, ages of statistics, clocks, who we are to PanDA, and which of its daemons act too."""
    here = Surroundings(time.monotonic, lambda: 0.5, time.sleep)
    with open_store(context) as database:
        findings = all_findings(database, settings_of(context).config, datetime.now(UTC), here)
    if json:
        for one in findings:
            print_json(dataclasses.asdict(one))
    else:
        print_table(("topic", "", "finding", "what to do"), [(f.topic, f.level, f.what, f.remedy) for f in findings])
    if any(one.level == "problem" for one in findings):
        raise typer.Exit(FAILED)
