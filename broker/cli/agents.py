"""``broker agents``: what runs, when, the last outcome, and who holds the lease."""

from __future__ import annotations

import socket
from typing import Annotated, Any

import typer

from agents import registry
from agents.configuration import AgentsConfiguration, config_file, load
from broker.cli.context import open_store, settings_of
from broker.cli.output import print_json, print_table, remark
from broker.errors import FAILED
from broker.store import agent_runs, leases, services
from broker.store.database import Database


def agents(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="One JSON object an agent on stdout.")] = False,
    health: Annotated[
        bool, typer.Option("--health", help="Only say, by the exit status, whether a service is alive on this host.")
    ] = False,
) -> None:
    """What runs, when, the last outcome, and who holds the lease."""
    configuration = load(config_file("agents.yaml", settings_of(context).config), registry.NAMES)
    with open_store(context) as database:
        if health:
            raise typer.Exit(_health(database, configuration.service.healthy_within_s))
        rows = _rows(database, configuration)
    if json:
        for row in rows:
            print_json(row)
        return
    columns = ("agent", "enabled", "period_s", "last_outcome", "started", "counts", "error", "holder", "expires_in_s")
    print_table(columns, [[_shown(row[column]) for column in columns] for row in rows])


def _health(database: Database, within_s: float) -> int:
    host = socket.gethostname()
    with database.begin() as connection:
        ages = [one.seen_s_ago for one in services.find_all(connection) if one.host == host]
    if not ages:
        remark(f"not healthy: no service has said that it runs on {host}")
        return FAILED
    if min(ages) > within_s:
        remark(f"not healthy: the last heartbeat is {min(ages):.0f} s old (limit {within_s:.0f} s)")
        return FAILED
    return 0


def _rows(database: Database, configuration: AgentsConfiguration) -> list[dict[str, Any]]:
    with database.begin() as connection:
        held = {row.name: row for row in leases.find_all(connection)}
        last = agent_runs.last_runs(connection)
    rows: list[dict[str, Any]] = []
    for name in registry.NAMES:
        section, lease, run = configuration.agents.get(name), held.get(name), last.get(name)
        in_force = lease is not None and lease.expires_in_s > 0
        rows.append(
            {
                "agent": name,
                "enabled": section is not None and section.enabled,
                "period_s": None if section is None else section.period_s,
                "last_outcome": None if run is None else run.outcome,
                "started": None if run is None else run.started_at,
                "finished": None if run is None else run.finished_at,
                "counts": {} if run is None else run.counts,
                "error": None if run is None else run.error,
                "holder": lease.holder if lease is not None and in_force else None,
                "epoch": None if lease is None else lease.epoch,
                "expires_in_s": round(lease.expires_in_s, 1) if lease is not None and in_force else None,
            }
        )
    return rows


def _shown(cell: Any) -> Any:
    if isinstance(cell, dict):
        return ", ".join(f"{name} {value}" for name, value in cell.items() if name != "notes")
    return (cell.strip().splitlines() or [""])[-1][:200] if isinstance(cell, str) else cell
