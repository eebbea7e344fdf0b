"""Decisions that are not written: where a task would go before submission, and one dry cycle about some tasks.

For :func:`feasibility` the task is actually submitted and brokered, in a transaction that is rolled back, so the answer
comes from the same code that will decide, on the grid as it is. :func:`decide` returns the decisions of a dry cycle as
they would be stored. Nothing is reserved or stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from pydantic import BaseModel

from agents.brokerage.agent import BrokerageAgent, Sink
from agents.brokerage.batch_writing import records_of
from agents.service import configuration, registry
from agents.service.base import CycleContext, CycleReport, CycleRequest
from agents.service.configuration import section_of
from broker.brokerages.base import Cycle, StageTimes
from broker.codec.work_codec import unpacked
from broker.decisions.answers.decision import explained
from broker.decisions.answers.decision_model import ExplainedDecision
from broker.decisions.answers.remedies import Case, evaluated_case
from broker.domain.decisions import StoredDecision
from broker.errors import NOT_FOUND, BrokerError
from broker.forecasts.answers.forecasts import ForecastLine, submitted_start
from broker.gdpconfig import Tuning
from broker.store.connection.database import Database
from broker.store.connection.read_only import rolled_back
from broker.store.query_context import Proceed, QueryContext, proceed
from broker.store.reads.chunk_reads import ANALYSIS_LABELS
from broker.tasks.statements.task_rows import AnySubmission, InsertedTask

BUDGET_S = 30.0


class NoSuchBrokerage(BrokerError):
    """There is no brokerage of that name."""

    exit_status = NOT_FOUND


@dataclass(frozen=True)
class DecisionRequest:
    """The decision requested.

    Attributes:
        brokerage: name of the brokerage.
        tasks: only these tasks; None for all that are due.
        now: the instant for which it decides (aware).
        seed: seed of everything random.
        independent: whether every task meets the same grid.
        config: folder with the operator's own configuration files.
    """

    brokerage: str
    tasks: tuple[int, ...] | None
    now: datetime
    seed: int
    independent: bool = False
    config: Path | None = None


@dataclass(frozen=True)
class DryRunDecision:
    """A decision that was not written, with the data needed to evaluate it again."""

    stored: StoredDecision
    case: Case


def decide(database: Database, request: DecisionRequest, emit: Callable[[dict[str, Any]], None]) -> CycleReport:
    """Decide without writing; ``emit`` receives the object of each decision.

    Raises:
        NoSuchBrokerage: there is no brokerage of that name.
        BrokerError: the cycle failed.
    """
    return _agent(request).cycle(_context(database, request, emit))


def try_decisions(database: Database, request: DecisionRequest) -> list[DryRunDecision]:
    """Decide without writing; return the decisions as they would be stored.

    Raises:
        NoSuchBrokerage: there is no brokerage of that name.
        BrokerError: the cycle failed.
    """
    agent = _Trial(_agent(request))
    agent.cycle(_context(database, request, None))
    return agent.trials


def _agent(request: DecisionRequest) -> BrokerageAgent:
    if request.brokerage not in registry.BROKERAGES:
        known = ", ".join(registry.BROKERAGES)
        raise NoSuchBrokerage(f"there is no brokerage {request.brokerage[:80]}", "brokerage", f"known are {known}")
    folder = request.config
    agents = configuration.load(configuration.config_file("agents.yaml", folder), registry.NAMES)
    section = section_of(agents, request.brokerage)
    settings = configuration.load_process(configuration.config_file("broker.yaml", folder), folder)
    agent = registry.make(request.brokerage, {} if section is None else section.options, settings)
    if not isinstance(agent, BrokerageAgent):
        raise TypeError(f"the agent {request.brokerage} is no brokerage")
    return agent


def _context(
    database: Database, request: DecisionRequest, emit: Callable[[dict[str, Any]], None] | None
) -> CycleContext:
    cycle = CycleRequest(request.tasks, dry_run=True, independent=request.independent, emit=emit, by_hand=True)
    return CycleContext(database, request.now, request.seed, BUDGET_S, cycle)


class _Trial(BrokerageAgent):
    """A brokerage that keeps its decisions in memory."""

    def __init__(self, agent: BrokerageAgent) -> None:
        self.__dict__.update(agent.__dict__)
        self.trials: list[DryRunDecision] = []
        self._tunings: dict[int, Tuning] = {}

    def _cycle_over(self, grid: Any, work: Any, context: CycleContext, tuning: Tuning) -> Cycle[Any]:
        cycle = super()._cycle_over(grid, work, context, tuning)
        self._tunings[id(cycle)] = tuning
        return cycle

    def _assign(self, cycle: Cycle[Any], sink: Sink) -> None:
        assigned: Sequence[Any] = list(cycle.assign(sink.origin.seed, StageTimes()))
        records = records_of(self.brokerage, cycle, assigned, None, sink.origin.decided_at, self._tables.each_cycle)
        for assignment, record in zip(assigned, records, strict=True):
            work = cycle.encode(assignment)
            stored_record = dataclasses.replace(record, work=work)
            batch = self.brokerage.batch(unpacked(work), older=False)
            tuning = self._tunings[id(cycle)] if id(cycle) in self._tunings else next(iter(self._tunings.values()))
            case = Case(self.brokerage, sink.grid.snapshot, tuning, batch, self._rules, record.decision)
            self.trials.append(DryRunDecision(StoredDecision(0, sink.origin, stored_record), case))


PROMISE: Literal["feasibility, no promise"] = "feasibility, no promise"
MOST_TASKS = 20


class FeasibleTask(BaseModel):
    """The decision that would be made about one task.

    Attributes:
        taskname: name of the task.
        jobs: number of jobs that it would have.
        nucleus: drawn or given nucleus; null if none is needed or available.
        decisions: decisions of each brokerage that would consider it, with candidates, reasons and nearest misses.
        notes: notes on the submission.
        start: when such a task would start if submitted now; null if there is no forecast.
    """

    taskname: str
    jobs: int
    nucleus: str | None
    decisions: list[ExplainedDecision]
    notes: list[str]
    start: ForecastLine | None = None


class FeasibilityAnswer(BaseModel):
    """Where tasks would go now.

    Attributes:
        promise: validity of the answer: the grid changes, and nothing is reserved.
        now: instant of the decision.
        seed: seed of the draws.
        tasks: each task, as if it were alone; at most 20.
        left_out: number of tasks of the description beyond these, about which nothing is said.
    """

    promise: Literal["feasibility, no promise"]
    now: datetime
    seed: int
    tasks: list[FeasibleTask]
    left_out: int = 0


@dataclass(frozen=True)
class Question:
    """Instant, seed and configuration of a request; ``evaluate``: whether to look for near misses, too."""

    now: datetime
    seed: int
    config: Path | None = None
    evaluate: bool = True


def feasibility(
    database: Database, submissions: Sequence[AnySubmission], question: Question, proceed: Proceed = proceed
) -> FeasibilityAnswer:
    """Determine where the tasks would go; ``proceed`` is called between the steps.

    Raises:
        NotOurTables: alongside PanDA.
        BrokerError: the snapshot cannot be built.
    """
    answers = []
    for submission in submissions[:MOST_TASKS]:
        with rolled_back(database) as trial:
            submitted = submission.make(trial, question.now)
            answers.append(_task(trial, submission, submitted, question, proceed))
    left_out = len(submissions) - len(answers)
    return FeasibilityAnswer(promise=PROMISE, now=question.now, seed=question.seed, tasks=answers, left_out=left_out)


def _task(
    trial: Database, submission: AnySubmission, submitted: InsertedTask, question: Question, proceed: Proceed
) -> FeasibleTask:
    proceed()
    columns = submission.columns
    nucleus = columns.get("nucleus")
    tried: list[DryRunDecision] = []
    if columns["prodsourcelabel"] in ANALYSIS_LABELS:
        tried += _decided(trial, "analysis_job", submitted.jeditaskid, question)
    else:
        if submitted.status == "assigning":
            tried += _decided(trial, "production_task", submitted.jeditaskid, question)
            nucleus = _drawn(tried)
            if nucleus is not None:
                _set_nucleus(trial, submitted.jeditaskid, nucleus)
        if submitted.status != "assigning" or nucleus is not None:
            tried += _decided(trial, "production_job", submitted.jeditaskid, question)
    return FeasibleTask(
        taskname=submitted.taskname,
        jobs=submitted.jobs,
        nucleus=nucleus,
        decisions=[_explained(one, question.evaluate, proceed) for one in tried],
        notes=list(submitted.notes),
        start=_start(trial, submitted.jeditaskid, question),
    )


def _start(trial: Database, task: int, question: Question) -> ForecastLine | None:
    with trial.begin() as connection:
        return submitted_start(QueryContext(connection, trial.names, question.now, question.config), task)


def _decided(trial: Database, brokerage: str, task: int, question: Question) -> list[DryRunDecision]:
    request = DecisionRequest(brokerage, (task,), question.now, question.seed, config=question.config)
    return try_decisions(trial, request)


def _drawn(tried: Sequence[DryRunDecision]) -> str | None:
    return next((name for one in tried for name in one.stored.record.assigned), None)


def _set_nucleus(trial: Database, task: int, nucleus: str) -> None:
    query = trial.names.sql(
        "UPDATE {panda}.jedi_tasks SET nucleus = :nucleus, status = 'ready' WHERE jeditaskid = :task"
    )
    with trial.begin() as connection:
        connection.execute(sa.text(query), {"nucleus": nucleus, "task": task})


def _explained(tried: DryRunDecision, evaluate: bool, proceed: Proceed) -> ExplainedDecision:
    decision = tried.stored.record.decision
    waits = decision.outcome not in ("brokered", "throttled")
    return explained(tried.stored, (), evaluated_case(tried.case, proceed) if evaluate and waits else None)
