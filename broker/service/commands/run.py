"""``broker run``: one cycle of one agent, now, by hand."""

from __future__ import annotations

import json as json_format
import logging
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agents.service import cycle, fault_points, json_log, registry
from agents.service.base import Agent, CycleContext, CycleRequest, DueCount
from agents.service.clock import ClockFault, ClockWatch, read_clocks
from agents.service.configuration import (
    AgentsConfiguration,
    ProcessSettings,
    config_file,
    load,
    load_process,
    section_of,
)
from agents.service.leadership import LeaseKeeper, holder_name
from broker.cli.context import SCENARIO_IF_LOADED, at_option, check_time, moment_of, open_store, settings_of
from broker.cli.elsewhere import Arguments, Documents, NotRemote, RemoteDocuments
from broker.cli.output import escaped, print_json, print_table, remark
from broker.decisions.answers.rules_in_force import by_profile
from broker.errors import (
    DONE,
    FAILED,
    NOT_FOUND,
    NOT_PLACED,
    REFUSED,
    WRONG_USAGE,
    BrokerError,
    NotFound,
    Refused,
    did_you_mean,
)
from broker.store.connection.database import Database
from broker.store.connection.deadlines import DEADLINES
from broker.store.reads.task_states import NO_SUCH_TASK
from broker.store.service import leases
from broker.store.service.agent_runs import OVERDUE_AFTER_S, RunOutcome, RunRecord

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient

SEED_BITS = 31
COMES_BACK_WITHIN_S = 10.0
"""Seconds that an overdue cycle by hand has to return before the process ends."""
LONGEST_CELL = 4
"""Maximum number of list elements that a table shows."""
EXIT_STATUS: dict[RunOutcome, int] = {"done": 0, "refused": REFUSED, "lost_lease": REFUSED}


class WrongUsageError(BrokerError):
    """The argument cannot be used."""

    exit_status = WRONG_USAGE


class NoSuchAgent(NotFound):
    """This installation has no agent of that name."""


class NotLeaderError(Refused):
    """Another process holds the agent's lease."""


OtherProfile = Annotated[str | None, typer.Option("--profile", metavar="NAME", help="Profile for this cycle.")]
Force = Annotated[
    bool,
    typer.Option("--force", help="Let this cycle through regardless of the brake and the clocks; requires --yes."),
]
Yes = Annotated[bool, typer.Option("--yes", help="With --force: confirm how many are ended or removed.")]
Timings = Annotated[
    Path | None, typer.Option("--timings", metavar="FILE", help="Write seconds of each stage and counts as JSON.")
]


def run(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(help=f"One of: {', '.join(registry.NAMES)}.", show_default=False)],
    at: Annotated[str | None, at_option("Evaluate as of this time", without=SCENARIO_IF_LOADED)] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed of everything random [drawn].")] = None,
    task: Annotated[list[int] | None, typer.Option("--task", help="Only this task; may be repeated.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Decide, but write nothing.")] = False,
    independent: Annotated[
        bool, typer.Option("--independent", help="Every task meets the same grid; nothing is written.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per decision on stdout.")] = False,
    force: Force = False,
    yes: Yes = False,
    profile: OtherProfile = None,
    timings: Timings = None,
) -> None:
    """Run one cycle of one agent."""
    fault_points.arm(os.environ)
    json_log.configure(level=logging.WARNING)
    check_time(at)  # an invalid time is reported before anything is opened
    output: list[dict[str, Any]] = []
    tasks = tuple(task) if task else None
    fates = _Fates(print_json if json else output.append)
    request = CycleRequest(tasks, dry_run, independent, fates.emit, in_full=json, by_hand=True, force=force)
    configuration = load(config_file("agents.yaml", settings_of(context).config), registry.NAMES)
    folder = settings_of(context).config
    process = load_process(config_file("broker.yaml", folder), folder)
    if profile is not None:
        process = by_profile(process, profile)
    prepared_agent = _agent(agent, configuration, process, force)
    with open_store(context) as database:
        now = moment_of(at, database, of_scenario=True)
        seed_used = secrets.randbits(SEED_BITS) if seed is None else seed
        record = _run_requested(prepared_agent, HandRun(database, now, seed_used, request), configuration, yes)
    if timings is not None:
        _write_timings(timings, record)
    report(agent, record, None if json else output)
    if record.outcome != "done":
        raise typer.Exit(EXIT_STATUS.get(record.outcome, FAILED))
    if tasks:
        raise typer.Exit(fates.exit_status())


def _agent(name: str, configuration: AgentsConfiguration, process: ProcessSettings, force: bool) -> Agent[Any]:
    """Return the agent of that name, as configured."""
    if name not in registry.NAMES:
        remedy = did_you_mean(name, registry.NAMES, f"known are {', '.join(registry.NAMES)}")
        raise NoSuchAgent(f"no such agent: {name[:60]}", "broker run", remedy)
    section = section_of(configuration, name)
    agent = registry.make(name, {} if section is None else section.options, process)
    if force and not agent.removes:
        raise WrongUsageError(f"nothing holds {name} back", "--force", "it is for agents that end, take back or remove")
    return agent


def _run_requested(agent: Agent[Any], prepared: HandRun, configuration: AgentsConfiguration, yes: bool) -> RunRecord:
    """Run the requested cycle; a forced one only after its effects are confirmed.

    Raises:
        WrongUsageError: a confirmation was given, but nothing requires one.
        Refused: nobody has confirmed.
    """
    request = prepared.request
    if yes and not request.force:
        raise WrongUsageError("--yes is for --force", "--yes", "leave it out")
    stopped = _say_how_many(agent, prepared, configuration, yes) if request.force and request.writes else None
    return run_by_hand(agent, prepared, configuration) if stopped is None else stopped


def _say_how_many(
    agent: Agent[Any], prepared: HandRun, configuration: AgentsConfiguration, yes: bool
) -> RunRecord | None:
    """Report what a forced cycle would end or remove; return the dry run's record if it did not complete.

    Raises:
        Refused: nobody has confirmed.
    """
    looking = replace(prepared.request, dry_run=True, emit=None)
    look = HandRun(prepared.database, prepared.now, prepared.seed, looking)
    record = run_by_hand(agent, look, configuration)
    if record.outcome != "done":
        return record
    due = ", ".join(f"{item.number} of {item.there_are} {item.kind}" for item in look.due if item.number) or "nothing"
    remark(f"{agent.name} --force: {due} due to be ended, taken back or removed")
    if not yes:
        remedy = f"see them with `broker run {agent.name} --dry-run`; if it is right, repeat it with --yes"
        raise Refused(f"--force without --yes: {due} due", f"agent {agent.name}", remedy)
    return None


class _Fates:
    """Passes on the events of a cycle, and remembers the fate of the work."""

    def __init__(self, passed_on: Callable[[dict[str, Any]], None]) -> None:
        self._passed_on = passed_on
        self._outcomes: list[tuple[str, str]] = []

    def emit(self, one: dict[str, Any]) -> None:
        """Handle one decision, or another event of an agent."""
        if "outcome" in one:
            self._outcomes.append((str(one["outcome"]), str(one.get("reason", ""))))
        self._passed_on(one)

    def exit_status(self) -> int:
        """Return "not found" if none of the tasks exists; "not placed" if part of them was not placed."""
        if self._outcomes and all(reason == NO_SUCH_TASK for _, reason in self._outcomes):
            return NOT_FOUND
        return DONE if all(outcome == "brokered" for outcome, _ in self._outcomes) else NOT_PLACED


class HandRun:
    """The context of a cycle by hand, apart from its lease."""

    def __init__(self, database: Database, now: datetime, seed: int, request: CycleRequest) -> None:
        """Take the instant to decide for, aware, as ``now``."""
        self.database, self.now, self.seed, self.request = database, now, seed, request
        self.clock_faults: tuple[ClockFault, ...] = ()
        self.due: list[DueCount] = []
        self.overdue = ""

    def note_overdue(self, details: str) -> None:
        """Report an overdue cycle with what is known about it."""
        self.overdue = details

    def end(self) -> None:
        """End the process, since the cycle has not returned: nothing else ends what hangs in its thread."""
        remark(f"error: {self.overdue or 'the cycle has not come back'}")
        os._exit(FAILED)

    def context(self, budget_s: float, **changes: Any) -> CycleContext:
        """Return the context of a cycle that may take ``budget_s``."""
        return CycleContext(
            self.database,
            self.now,
            self.seed,
            budget_s,
            self.request,
            clock_faults=self.clock_faults,
            due=self.due,
            **changes,
        )


def run_by_hand(agent: Agent[Any], prepared: HandRun, configuration: AgentsConfiguration) -> RunRecord:
    """Run one cycle of ``agent``, under its lease if it may write.

    Raises:
        NotLeaderError: another process holds the lease.
    """
    prepared.clock_faults = ClockWatch(configuration.service.clock_limit_s).check(read_clocks(prepared.database))
    section = section_of(configuration, agent.name)
    budget_s = section.cycle_budget_s if section is not None else float("inf")
    with DEADLINES.after(budget_s + OVERDUE_AFTER_S + COMES_BACK_WITHIN_S, prepared.end):
        if not prepared.request.writes:
            return cycle.run_cycle(agent, prepared.context(budget_s, when_overdue=prepared.note_overdue))
        with prepared.database.sibling("gridbroker lease", 1) as control:
            keeper = LeaseKeeper(control, holder_name(), configuration.leases)
            return _run_as_leader(agent, prepared, keeper, budget_s)


def _run_as_leader(agent: Agent[Any], prepared: HandRun, keeper: LeaseKeeper, budget_s: float) -> RunRecord:
    lease = keeper.acquire(agent.name)
    if lease is None:
        raise _not_leader(prepared.database, agent.name)
    keeper.start()
    try:
        run_id = cycle.open_run(prepared.database, agent.name, lease, budget_s)

        def overdue(details: str) -> None:
            keeper.give_up(agent.name)
            prepared.note_overdue(details)

        context = prepared.context(budget_s, lease=lease, run_id=run_id, believes=keeper.trusts, when_overdue=overdue)
        return cycle.run_cycle(agent, context)
    finally:
        keeper.stop()


def _not_leader(database: Database, name: str) -> NotLeaderError:
    with database.begin() as connection:
        rows = leases.holders_of(connection, name)
    holder = "; ".join(f"{row.holder}, for {row.expires_in_s:.0f} s more" for row in rows) or "another process"
    return NotLeaderError(
        f"not the leader: {holder}", f"lease {name}", "wait, stop the other process, or use --dry-run"
    )


def _write_timings(file: Path, record: RunRecord) -> None:
    try:
        file.write_text(json_format.dumps({**record.timings, **record.counts}) + "\n", encoding="utf-8")
    except OSError as error:
        raise BrokerError(f"cannot write the timings: {error.strerror}", str(file), "choose another file") from error


def report(agent: str, record: RunRecord, output: list[dict[str, Any]] | None) -> None:
    """Print how a cycle ended; ``output`` holds the objects for tables, None if they were printed as they came."""
    for note in record.notes:
        remark(f"note: {note}")
    if record.error is not None:
        remark(f"error: cycle of {agent}: {record.outcome}: {record.error_line}")
    if output is None:
        return
    # an agent may report items of several kinds, not only what it brokered
    kinds: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for one in output:
        kinds.setdefault(("brokerage",) if "brokerage" in one else tuple(one), []).append(one)
    if not output:
        typer.echo("there was nothing to do")
    for columns, rows in kinds.items():
        if columns == ("brokerage",):
            print_table(list(_BROKERED), [[show(row) for show in _BROKERED.values()] for row in rows])
        else:
            print_table(columns, [[_cell(value) for value in row.values()] for row in rows])
    counts = ", ".join(f"{name} {count}" for name, count in record.counts.items())
    remark(f"cycle of {agent}: {record.outcome}; {counts}")


_BROKERED: dict[str, Callable[[dict[str, Any]], object]] = {
    "task": lambda one: one["jeditaskid"],
    "dataset": lambda one: one["datasetid"],
    "ramcount": lambda one: one["ramcount"],
    "outcome": lambda one: one["outcome"],
    "reason": lambda one: one["reason"],
    "candidates": lambda one: one["candidate_count"],
    "jobs": lambda one: sum(one["assigned"].values()),
    "queues": lambda one: ", ".join(f"{escaped(name)} {jobs}" for name, jobs in one["assigned"].items()),
}


def _cell(value: object) -> object:
    """Return an object's value for the table; a long list is shortened to its beginning."""
    if isinstance(value, list):
        more = f", ... ({len(value)})" if len(value) > LONGEST_CELL else ""
        return ", ".join(map(str, value[:LONGEST_CELL])) + more
    return ", ".join(f"{name} {inner}" for name, inner in value.items()) if isinstance(value, dict) else value


def _ask(client: BrokerClient, given: Arguments) -> Documents:
    if not (given["dry_run"] or given["independent"]):
        raise NotRemote("a cycle that writes runs on the broker's own machine", "broker run", "give --dry-run")
    answer = client.run(
        given["agent"], tasks=given["task"] or None, seed=given["seed"], independent=given["independent"]
    )
    decisions: Documents = answer["decisions"]
    return decisions


ELSEWHERE = RemoteDocuments(_ask)
