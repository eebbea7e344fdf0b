"""One cycle of an agent with everything around it: run row, typed outcome, log."""

from __future__ import annotations

import dataclasses
import logging
import time
import traceback
from typing import Any

import psycopg

from agents.service.base import Agent, BudgetExceededError, CycleAbandonedError, CycleContext, CycleReport
from agents.service.brake import is_held_back, pause_held_back
from agents.service.hung_rules import CycleThread, RuleInterrupted, interrupted_after
from agents.service.traces import note_cycle
from broker.errors import Refused
from broker.store.connection.database import Database
from broker.store.connection.deadlines import DEADLINES
from broker.store.connection.transient import TRANSIENT_ERRORS
from broker.store.service import agent_pauses, agent_runs
from broker.store.service.agent_runs import OVERDUE_AFTER_S, RunOutcome, RunRecord
from broker.store.service.leases import Lease, StaleLeaseError

_log = logging.getLogger(__name__)

WRITE_DOWN_WITHIN_S = 5.0
"""Seconds for opening or closing the row of a cycle."""

_TYPED: tuple[tuple[tuple[type[Exception], ...], RunOutcome], ...] = (
    ((StaleLeaseError,), "lost_lease"),
    ((BudgetExceededError,), "over_budget"),
    ((CycleAbandonedError,), "abandoned"),
    ((Refused,), "refused"),
    (TRANSIENT_ERRORS, "failed_transient"),
)


def outcome_of(error: BaseException) -> RunOutcome:
    """The outcome of a cycle that ended with ``error``."""
    return next((outcome for kinds, outcome in _TYPED if isinstance(error, kinds)), "failed")


def run_cycle(agent: Agent[Any], context: CycleContext) -> RunRecord:
    """Run ``agent`` once in ``context`` and say how it ended; its run row, if it has one, is closed.

    An error of the cycle becomes its outcome and is logged with its traceback; it never ends the thread that called.
    """
    started = time.perf_counter()
    report = CycleReport()
    outcome: RunOutcome = "done"
    error_text: str | None = None
    try:
        report = _report_of(agent, context)
    except (Exception, SystemExit) as error:
        outcome = _outcome_in(context, error)
        error_text = _message(error, outcome)
    timings = {**report.timings, "total_s": time.perf_counter() - started}
    held_back = context.request.writes and is_held_back(context.due)
    counts = {**report.counts, agent_runs.BRAKED: 1} if held_back else report.counts
    about = report.snapshot, report.tuning, report.profile, report.only_recorded
    record = RunRecord(outcome, counts, timings, report.notes, error_text, *about)
    note_cycle(agent.name, outcome, timings, time.time_ns(), context.run_id)
    _write_down(agent, context, record)
    return record


def _report_of(agent: Agent[Any], context: CycleContext) -> CycleReport:
    """Run the cycle.

    Raises:
        BudgetExceededError: a rule did not come back in time, beside all that a cycle raises.
    """
    try:
        with (
            interrupted_after(context.left_s) as thread,
            DEADLINES.after(context.left_s + OVERDUE_AFTER_S, lambda: _end_overdue(agent.name, context, thread)),
        ):
            _refuse_wrong_clocks(agent, context)
            return agent.cycle(context.limited())
    except RuleInterrupted as error:
        raise BudgetExceededError(
            f"rule {thread.interrupted} still ran when the {context.budget_s:g} s of the cycle were used up, and was "
            "interrupted; mend it, leave it out of the profile, or raise cycle_budget_s in config/agents.yaml"
        ) from error


def _outcome_in(context: CycleContext, error: BaseException) -> RunOutcome:
    """The outcome of a cycle that ended with ``error`` in ``context``; time limits have outcomes of their own."""
    outcome = outcome_of(error)
    if outcome != "failed_transient":
        return outcome
    if context.connections.cut_because is not None:
        return "abandoned" if context.ending.is_set() else "overdue"
    cause = getattr(error, "orig", error)
    timed_out = isinstance(cause, psycopg.errors.QueryCanceled | psycopg.errors.LockNotAvailable)
    return "over_budget" if timed_out and context.left_s <= 0 else outcome


def _refuse_wrong_clocks(agent: Agent[Any], context: CycleContext) -> None:
    """An agent that removes needs clocks that agree; the others decide by the database's, and only say it.

    Raises:
        Refused: they do not.
    """
    if not context.clock_faults:
        return
    found = "; ".join(f"{one.code} by {one.seconds:+.0f} s (limit {one.limit_s:g} s)" for one in context.clock_faults)
    fields = {"agent": agent.name, "faults": [dataclasses.asdict(one) for one in context.clock_faults]}
    _log.error("clocks contradict one another", extra={"fields": fields})
    if agent.removes and context.request.writes and not context.request.force:
        raise Refused(
            f"clocks contradict one another: {found}",
            f"agent {agent.name}",
            "set them right; once they have agreed for clocks_agree_for_s the agent goes on by itself. "
            f"`broker run {agent.name} --force --yes` lets one cycle through. The limit is clock_limit_s in "
            "config/agents.yaml",
        )


def _end_overdue(agent: str, context: CycleContext, thread: CycleThread) -> None:
    """Another thread's answer to a cycle that does not come back: it waits for nobody any more, and leads no more."""
    passed = f"the cycle of {agent} is overdue: {context.budget_s + OVERDUE_AFTER_S:g} s have passed"
    rule = thread.rule()
    context.connections.cut(passed)
    fields = {"agent": agent, "run": context.run_id, "budget_s": context.budget_s, "rule": rule}
    _log.error("cycle overdue: its connections were closed and its lease is given up", extra={"fields": fields})
    thread.interrupt()
    context.when_overdue(passed if rule is None else f"{passed}, and rule {rule} has not come back; mend it")


def open_run(database: Database, agent: str, lease: Lease, budget_s: float | None = None) -> int:
    """Open the run row of a cycle of ``budget_s`` seconds under ``lease`` and return its id.

    Raises:
        AgentPaused: an operator has paused the agent.
    """
    with database.within(WRITE_DOWN_WITHIN_S) as limited, limited.begin() as connection:
        agent_pauses.refuse_paused(connection, agent)
        return agent_runs.start(connection, agent, lease, budget_s)


def _message(error: BaseException, outcome: RunOutcome) -> str:
    if outcome == "failed":
        return "".join(traceback.format_exception(error))[-agent_runs.ERROR_LIMIT :]
    return f"{type(error).__name__}: {error}"


def _write_down(agent: Agent[Any], context: CycleContext, record: RunRecord) -> None:
    name = agent.name
    fields: dict[str, object] = {
        "agent": name,
        "run": context.run_id,
        "outcome": record.outcome,
        "error": record.error,
    }
    fields |= {"counts": dict(record.counts), "timings": dict(record.timings), "notes": list(record.notes)}
    good = record.outcome in ("done", "abandoned")
    _log.log(logging.INFO if good else logging.ERROR, f"cycle of {name}: {record.outcome}", extra={"fields": fields})
    if context.run_id is None:
        return
    try:
        with context._database.within(WRITE_DOWN_WITHIN_S) as database, database.begin() as connection:
            agent_runs.finish(connection, context.run_id, record)
            if agent_runs.BRAKED in record.counts:
                pause_held_back(connection, name, agent.options, context.due)
    except TRANSIENT_ERRORS as error:
        fields = {"agent": name, "run": context.run_id, "error": str(error)}
        _log.warning("run row left open; the next cycle closes it", extra={"fields": fields})
