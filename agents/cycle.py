"""One cycle of an agent with everything around it: run row, typed outcome, log."""

from __future__ import annotations

import logging
import time
import traceback
from typing import Any

from agents.base import Agent, BudgetExceededError, CycleAbandonedError, CycleContext, CycleReport
from broker.errors import Refused
from broker.store import agent_runs
from broker.store.agent_runs import RunOutcome, RunRecord
from broker.store.database import Database
from broker.store.leases import Lease, StaleLeaseError
from broker.store.transient import TRANSIENT_ERRORS

_log = logging.getLogger(__name__)

_TYPED: tuple[tuple[tuple[type[Exception], ...], RunOutcome], ...] = (
    ((StaleLeaseError,), "lost_lease"),
    ((BudgetExceededError,), "over_budget"),
    ((CycleAbandonedError,), "abandoned"),
    ((Refused,), "refused"),
    (TRANSIENT_ERRORS, "failed_transient"),
)


def outcome_of(error: Exception) -> RunOutcome:
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
        report = agent.cycle(context)
    except Exception as error:
        outcome = outcome_of(error)
        error_text = _told(error, outcome)
    timings = {**report.timings, "total_s": time.perf_counter() - started}
    record = RunRecord(outcome, report.counts, timings, report.notes, error_text, report.snapshot, report.tuning)
    _write_down(agent.name, context, record)
    return record


def open_run(database: Database, agent: str, lease: Lease) -> int:
    """Open the run row of a cycle under ``lease`` and return its id."""
    with database.begin() as connection:
        return agent_runs.start(connection, agent, lease.holder, lease.epoch)


def _told(error: Exception, outcome: RunOutcome) -> str:
    if outcome == "failed":
        return "".join(traceback.format_exception(error))[-agent_runs.ERROR_LIMIT :]
    return f"{type(error).__name__}: {error}"


def _write_down(agent: str, context: CycleContext, record: RunRecord) -> None:
    fields: dict[str, object] = {
        "agent": agent,
        "run": context.run_id,
        "outcome": record.outcome,
        "error": record.error,
    }
    fields |= {"counts": dict(record.counts), "timings": dict(record.timings), "notes": list(record.notes)}
    good = record.outcome in ("done", "abandoned")
    _log.log(logging.INFO if good else logging.ERROR, f"cycle of {agent}: {record.outcome}", extra={"fields": fields})
    if context.run_id is None:
        return
    try:
        with context.database.begin() as connection:
            agent_runs.finish(connection, context.run_id, record)
    except TRANSIENT_ERRORS as error:
        fields = {"agent": agent, "run": context.run_id, "error": str(error)}
        _log.warning("run row left open; the next cycle closes it", extra={"fields": fields})
