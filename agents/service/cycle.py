"""Runs one cycle of an agent: its run row, typed outcome, log and spans, and the end of a rule that hangs.

Once the time of a cycle is used up, the running rule is interrupted and named. A cycle checks its time between steps,
and a rule is one step, so a rule that never returns would hold the cycle and its thread for good. Python can raise an
exception in another thread, which ends code that runs in the interpreter. Code that waits outside the interpreter (for
a server, a lock, a compiled loop) returns only by itself: the cycle is then overdue, and only the end of the process
ends its thread.

Each cycle and each of its stages has an OpenTelemetry span; without the extra ``telemetry`` there are none. The usual
variables (``OTEL_EXPORTER_OTLP_ENDPOINT`` and the like) configure the exporter; without an endpoint no spans are
created.

Source: Python documentation, C API, ``PyThreadState_SetAsyncExc``.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from types import FrameType
from typing import Any

import psycopg

from agents.service.base import Agent, BudgetExceededError, CycleAbandonedError, CycleContext, CycleReport
from agents.service.brake import is_held_back, pause_held_back
from broker.errors import Refused
from broker.store.connection.database import Database
from broker.store.connection.deadlines import DEADLINES
from broker.store.connection.transient import TRANSIENT_ERRORS
from broker.store.service import agent_pauses, agent_runs
from broker.store.service.agent_runs import OVERDUE_AFTER_S, RunOutcome, RunRecord
from broker.store.service.leases import Lease, StaleLeaseError

_NS = 1_000_000_000
SCOPE = "gridbroker"


def note_cycle(agent: str, outcome: str, timings: Mapping[str, float], ended_ns: int, run: int | None = None) -> None:
    """Create the spans of a finished cycle.

    Args:
        agent: the agent that ran the cycle.
        outcome: outcome of the cycle.
        timings: seconds by stage, with ``total_s``; the stages followed one another in this order.
        ended_ns: end of the cycle, in nanoseconds since 1970.
        run: row of the cycle in ``agent_runs``.
    """
    tracer = _tracer()
    if tracer is None:
        return
    total_s = float(timings.get("total_s", sum(timings.values())))
    began_ns = ended_ns - int(total_s * _NS)
    attributes: dict[str, Any] = {"agent": agent, "outcome": outcome}
    if run is not None:
        attributes["run"] = run
    from opentelemetry import trace

    span = tracer.start_span(f"cycle {agent}", start_time=began_ns, attributes=attributes)
    at_ns = began_ns
    for stage, seconds in timings.items():
        if stage == "total_s":
            continue
        inside = trace.set_span_in_context(span)
        part = tracer.start_span(stage.removesuffix("_s"), context=inside, start_time=at_ns)
        at_ns = min(ended_ns, at_ns + int(float(seconds) * _NS))
        part.end(at_ns)
    span.end(ended_ns)


@cache
def _tracer() -> Any:
    """Return the tracer; None if nothing is installed or configured."""
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        return None
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return trace.get_tracer(SCOPE)
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return None
    return _exporting()


ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def _exporting() -> Any:
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": SCOPE}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return trace.get_tracer(SCOPE)


class RuleInterrupted(BaseException):
    """Raised inside a rule by another thread. Not an ``Exception``: neither rule nor engine may continue after it."""


class CycleThread:
    """The thread of a cycle, as seen by the threads that supervise it.

    Attributes:
        interrupted: the rule that was interrupted; None if none was.
    """

    def __init__(self) -> None:
        """Take the calling thread as that of a running cycle."""
        self.interrupted: str | None = None
        self._ident = threading.get_ident()
        self._runs = True
        self._lock = threading.Lock()

    def rule(self) -> str | None:
        """Return the rule, or step of a profile, that is running; None if there is none."""
        from broker.rules.contract import Rule, Step

        frame: FrameType | None = sys._current_frames().get(self._ident)
        while frame is not None:
            owner = frame.f_locals.get("self")
            if isinstance(owner, Rule | Step):
                return owner.name
            frame = frame.f_back
        return None

    def interrupt(self) -> None:
        """End the running rule, if there is one; may be called from any thread and does not block."""
        with self._lock:
            rule = self.rule() if self._runs else None
            if rule is not None:
                self.interrupted = rule
                _raise_in(self._ident, RuleInterrupted)

    def leave(self) -> None:
        """Mark the cycle as over: nothing is raised in its thread from here on."""
        with self._lock:
            self._runs = False
            if self.interrupted is not None:
                _raise_in(self._ident, None)


@contextlib.contextmanager
def interrupted_after(seconds: float) -> Iterator[CycleThread]:
    """Run the block as a cycle whose rules are interrupted if they still run after ``seconds``.

    Raises:
        RuleInterrupted: in the block.
    """
    thread = CycleThread()
    try:
        with DEADLINES.after(seconds, thread.interrupt):
            yield thread
    finally:
        thread.leave()


def _raise_in(ident: int, kind: type[BaseException] | None) -> None:
    """Raise ``kind`` in a thread when it next runs Python; None cancels one that is still pending."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), None if kind is None else ctypes.py_object(kind))


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
    """Return the outcome of a cycle that ended with ``error``."""
    return next((outcome for kinds, outcome in _TYPED if isinstance(error, kinds)), "failed")


def run_cycle(agent: Agent[Any], context: CycleContext) -> RunRecord:
    """Run ``agent`` once in ``context`` and return how it ended; its run row, if it has one, is closed.

    An error of the cycle becomes its outcome and is logged with its traceback; it never ends the calling thread.
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
    done = {**vars(report), "counts": counts, "timings": timings}
    record = RunRecord(**done, outcome=outcome, error=error_text)
    note_cycle(agent.name, outcome, timings, time.time_ns(), context.run_id)
    _write_down(agent, context, record)
    return record


def _report_of(agent: Agent[Any], context: CycleContext) -> CycleReport:
    """Run the cycle and return its report.

    Raises:
        BudgetExceededError: a rule did not return in time; errors of the cycle pass through.
    """
    try:
        with (
            interrupted_after(context.left_s) as thread,
            DEADLINES.after(context.left_s + OVERDUE_AFTER_S, lambda: _end_overdue(agent.name, context, thread)),
        ):
            _refuse_newer_schema(context)
            _refuse_wrong_clocks(agent, context)
            return agent.cycle(context.limited())
    except RuleInterrupted as error:
        raise BudgetExceededError(
            f"rule {thread.interrupted} still ran when the {context.budget_s:g} s of the cycle were used up, and was "
            "interrupted; mend it, leave it out of the profile, or raise cycle_budget_s in config/agents.yaml"
        ) from error


def _outcome_in(context: CycleContext, error: BaseException) -> RunOutcome:
    """Return the outcome of a cycle that ended with ``error`` in ``context``; time limits have their own outcomes."""
    outcome = outcome_of(error)
    if outcome != "failed_transient":
        return outcome
    if context.connections.cut_because is not None:
        return "abandoned" if context.ending.is_set() else "overdue"
    cause = getattr(error, "orig", error)
    timed_out = isinstance(cause, psycopg.errors.QueryCanceled | psycopg.errors.LockNotAvailable)
    return "over_budget" if timed_out and context.left_s <= 0 else outcome


def _refuse_newer_schema(context: CycleContext) -> None:
    """Check that a cycle that may write has a schema that this release may write under; each transaction checks again.

    Raises:
        SchemaTooNew: a newer broker has upgraded the schema past this release.
    """
    guard = context._database.guard
    if guard is None or not context.request.writes:
        return
    with context._database.read_snapshot() as connection:
        guard.refuse(connection)


def _refuse_wrong_clocks(agent: Agent[Any], context: CycleContext) -> None:
    """Refuse an agent that removes while the clocks disagree; others decide by the database's clock and log the fault.

    Raises:
        Refused: the clocks contradict one another.
    """
    if not context.clock_faults:
        return
    faults = "; ".join(
        f"{fault.code} by {fault.seconds:+.0f} s (limit {fault.limit_s:g} s)" for fault in context.clock_faults
    )
    fields = {"agent": agent.name, "faults": [dataclasses.asdict(fault) for fault in context.clock_faults]}
    _log.error("clocks contradict one another", extra={"fields": fields})
    if agent.removes and context.request.writes and not context.request.force:
        raise Refused(
            f"clocks contradict one another: {faults}",
            f"agent {agent.name}",
            "set them right; once they have agreed for clocks_agree_for_s the agent goes on by itself. "
            f"`broker run {agent.name} --force --yes` lets one cycle through. The limit is clock_limit_s in "
            "config/agents.yaml",
        )


def _end_overdue(agent: str, context: CycleContext, thread: CycleThread) -> None:
    """Handle a cycle that does not return, from another thread: it stops waiting and no longer leads."""
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
