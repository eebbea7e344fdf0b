"""``broker doctor``: what stands in the way of running on this database."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated

import typer

from agents.service import registry
from agents.service.configuration import AgentSection, config_file, load
from broker.app.doctor import examine
from broker.cli.context import open_store, settings_of
from broker.cli.output import print_json, print_table
from broker.errors import FAILED
from broker.store.schema import migrate

#: Agents that end jobs.
ENDING = {"timeouts", "fast_rebrokerage", "analysis_rebrokerage"}


def doctor(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a finding on stdout.")] = False,
) -> None:
    """Rights, missing columns, ages of statistics, clocks, and which PanDA daemons do the same work."""
    configuration = load(config_file("agents.yaml", settings_of(context).config), registry.NAMES)
    with open_store(context) as database:
        mode = migrate.check(database)
        enabled = {name: section.runs(mode) for name, section in configuration.agents.items()}
        findings = examine(database, enabled, datetime.now(UTC), asking_panda(configuration.agents))
    if json:
        for one in findings:
            print_json(dataclasses.asdict(one))
    else:
        print_table(("topic", "", "finding", "what to do"), [(f.topic, f.level, f.what, f.remedy) for f in findings])
    if any(one.level == "problem" for one in findings):
        raise typer.Exit(FAILED)


def asking_panda(agents: Mapping[str, AgentSection]) -> set[str]:
    """The agents that, alongside PanDA, end jobs by asking its server."""
    return {name for name in ENDING & agents.keys() if agents[name].options.get("through", "auto") != "sql"}
