"""``broker doctor``: what stands in the way of running on this database."""

from __future__ import annotations

import dataclasses
import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from agents.service import registry
from agents.service.configuration import config_file, load
from agents.service.process import JobsAreMadeByJedi, ProcessSettings, load_process
from broker.alongside.answers.mirror_findings import mirror_findings
from broker.alongside.answers.panda_server import asking_panda, server_findings
from broker.cli.context import open_store, settings_of
from broker.cli.output import print_json, print_table
from broker.errors import FAILED
from broker.fetching.terms import Surroundings
from broker.service.answers.doctor import Finding, examine
from broker.store.schema import migrate


def doctor(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a finding on stdout.")] = False,
) -> None:
    """Rights, missing columns, ages of statistics, clocks, who we are to PanDA, and which of its daemons act too."""
    folder = settings_of(context).config
    configuration = load(config_file("agents.yaml", folder), registry.NAMES)
    process = load_process(config_file("broker.yaml", folder), folder)
    with open_store(context) as database:
        mode = migrate.check(database)
        enabled = {name: section.runs(mode) for name, section in configuration.agents.items()}
        findings = examine(database, enabled, datetime.now(UTC), asking_panda(configuration.agents))
        if mode != migrate.STANDALONE:
            here = Surroundings(time.monotonic, lambda: 0.5, time.sleep)
            findings += [*job_generation(process, mode), *server_findings(configuration.agents, enabled, here)]
        if mode == migrate.MIRRORED:
            findings += mirror_findings(database, datetime.now(UTC))
    if json:
        for one in findings:
            print_json(dataclasses.asdict(one))
    else:
        print_table(("topic", "", "finding", "what to do"), [(f.topic, f.level, f.what, f.remedy) for f in findings])
    if any(one.level == "problem" for one in findings):
        raise typer.Exit(FAILED)


def job_generation(process: ProcessSettings, mode: str) -> list[Finding]:
    """Whether the broker is told to make jobs where JEDI makes them."""
    try:
        process.makes_jobs(mode)
    except JobsAreMadeByJedi as error:
        return [Finding("job_generation", "problem", error.what, error.remedy)]
    return [Finding("job_generation", "ok", "JEDI makes the jobs")]
