"""``broker run``: one cycle of one agent, now, by hand."""

from __future__ import annotations

import json as json_format
import logging
import os
import secrets
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from agents import cycle, fault_points, json_log, registry
from agents.base import Agent, CycleContext, CycleRequest
from agents.configuration import AgentsConfiguration, config_file, load
from agents.leadership import LeaseKeeper, holder_name
from agents.process import load_process
from broker.cli.context import open_store, settings_of
from broker.cli.moments import moment_of, until
from broker.cli.output import escaped, print_json, print_table, remark
from broker.errors import FAILED, REFUSED, WRONG_USAGE, BrokerError, Refused
from broker.store import leases
from broker.store.agent_runs import RunOutcome, RunRecord
from broker.store.database import Database

SEED_BITS = 31
LONGEST_CELL = 4
"""Elements of a list that a table shows."""
_EXIT_STATUS: dict[RunOutcome, int] = {"done": 0, "refused": REFUSED, "lost_lease": REFUSED}


class WrongUsageError(BrokerError):
    """An argument that cannot be used."""

    exit_status = WRONG_USAGE


class NotLeaderError(Refused):
    """Another process holds the agent's lease."""


def run(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(help=f"One of: {', '.join(registry.NAMES)}.", show_default=False)],
    at: Annotated[
        str, typer.Option("--at", metavar="TIME|now", help="Instant to decide for; now: that of a loaded scenario.")
    ] = "now",
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Of everything random [drawn].")] = None,
    task: Annotated[list[int] | None, typer.Option("--task", help="Only this task; may be repeated.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Decide, but write nothing.")] = False,
    independent: Annotated[
        bool, typer.Option("--independent", help="Every task meets the same grid; nothing is written.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a decision on stdout.")] = False,
    timings: Annotated[
        Path | None, typer.Option("--timings", metavar="FILE", help="Write seconds of each stage and counts as JSON.")
    ] = None,
) -> None:
    """Run one cycle of one agent."""
    fault_points.arm(os.environ)
    json_log.configure(level=logging.WARNING)
    if agent not in registry.NAMES:
        known = ", ".join(registry.NAMES)
        raise WrongUsageError(f"no such agent: {agent}", "broker run", f"known are {known}")
    until(at)  # a wrong time is told before anything is opened
    told: list[dict[str, Any]] = []
    tasks = tuple(task) if task else None
    request = CycleRequest(tasks, dry_run, independent, print_json if json else told.append, by_hand=True)
    configuration = load(config_file("agents.yaml", settings_of(context).config), registry.NAMES)
    folder = settings_of(context).config
    process = load_process(config_file("broker.yaml", folder), folder)
    options = configuration.agents[agent].options if agent in configuration.agents else {}
    chosen = registry.make(agent, options, process)
    with open_store(context) as database:
        prepared = _Prepared(
            database, moment_of(at, database), secrets.randbits(SEED_BITS) if seed is None else seed, request
        )
        record = _run(chosen, prepared, configuration)
    if timings is not None:
        _write_timings(timings, record)
    _report(agent, record, None if json else told)
    if record.outcome != "done":
        raise typer.Exit(_EXIT_STATUS.get(record.outcome, FAILED))


class _Prepared:
    """What the cycle gets apart from its lease."""

    def __init__(self, database: Database, now: datetime, seed: int, request: CycleRequest) -> None:
        self.database, self.now, self.seed, self.request = database, now, seed, request

    def context(self, budget_s: float, **changes: Any) -> CycleContext:
        return CycleContext(self.database, self.now, self.seed, budget_s, self.request, **changes)


def _run(agent: Agent[Any], prepared: _Prepared, configuration: AgentsConfiguration) -> RunRecord:
    section = configuration.agents.get(agent.name)
    budget_s = section.cycle_budget_s if section is not None else float("inf")
    if not prepared.request.writes:
        return cycle.run_cycle(agent, prepared.context(budget_s))
    keeper = LeaseKeeper(prepared.database, holder_name(), configuration.lease_terms)
    return _run_as_leader(agent, prepared, keeper, budget_s)


def _run_as_leader(agent: Agent[Any], prepared: _Prepared, keeper: LeaseKeeper, budget_s: float) -> RunRecord:
    lease = keeper.acquire(agent.name)
    if lease is None:
        raise _not_leader(prepared.database, agent.name)
    keeper.start()
    try:
        run_id = cycle.open_run(prepared.database, agent.name, lease)
        context = prepared.context(budget_s, lease=lease, run_id=run_id, believes=keeper.trusts)
        return cycle.run_cycle(agent, context)
    finally:
        keeper.stop()


def _not_leader(database: Database, name: str) -> NotLeaderError:
    with database.begin() as connection:
        row = leases.find(connection, name)
    holder = "another process" if row is None else f"{row.holder}, for {max(row.expires_in_s, 0):.0f} s more"
    return NotLeaderError(
        f"not the leader: {holder}", f"lease {name}", "wait, stop the other process, or use --dry-run"
    )


def _write_timings(file: Path, record: RunRecord) -> None:
    try:
        file.write_text(json_format.dumps({**record.timings, **record.counts}) + "\n", encoding="utf-8")
    except OSError as error:
        raise BrokerError(f"cannot write the timings: {error.strerror}", str(file), "choose another file") from error


def _report(agent: str, record: RunRecord, told: list[dict[str, Any]] | None) -> None:
    for note in record.notes:
        remark(f"note: {note}")
    if record.error is not None:
        remark(f"error: cycle of {agent}: {record.outcome}: {record.error_line}")
    if told is None:
        return
    # an agent may tell of things of several kinds, and of other things than what it brokered
    kinds: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for one in told:
        kinds.setdefault(("brokerage",) if "brokerage" in one else tuple(one), []).append(one)
    if not told:
        typer.echo("there was nothing to do")
    for columns, rows in kinds.items():
        if columns == ("brokerage",):
            print_table(list(_BROKERED), [[show(one) for show in _BROKERED.values()] for one in rows])
        else:
            print_table(columns, [[_cell(value) for value in one.values()] for one in rows])
    counts = ", ".join(f"{name} {count}" for name, count in record.counts.items())
    remark(f"cycle of {agent}: {record.outcome}; {counts}")


_BROKERED: dict[str, Callable[[dict[str, Any]], object]] = {
    "task": lambda one: one["jeditaskid"],
    "dataset": lambda one: one["datasetid"],
    "ramcount": lambda one: one["ramcount"],
    "outcome": lambda one: one["outcome"],
    "reason": lambda one: one["reason"],
    "candidates": lambda one: len(one["candidates"]),
    "jobs": lambda one: sum(one["assigned"].values()),
    "queues": lambda one: ", ".join(f"{escaped(name)} {jobs}" for name, jobs in one["assigned"].items()),
}


def _cell(value: object) -> object:
    """A value of an object for the table: of a long list only how it begins."""
    if isinstance(value, list):
        more = f", ... ({len(value)})" if len(value) > LONGEST_CELL else ""
        return ", ".join(map(str, value[:LONGEST_CELL])) + more
    return ", ".join(f"{name} {inner}" for name, inner in value.items()) if isinstance(value, dict) else value
