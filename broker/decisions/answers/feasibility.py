"""Feasibility: where a task would go now, and why not elsewhere, before it is submitted. Nothing is reserved or kept.

The task is really submitted and really brokered, in a transaction that is rolled back: what answers is the code that
will decide, on the grid as it is.

Deciding without writing: one dry cycle about some tasks, with the decisions as they would be stored.
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
from broker.store.query_context import Asking, Proceed, proceed
from broker.store.reads.chunk_reads import ANALYSIS_LABELS
from broker.tasks.statements.task_rows import AnySubmission, Submitted

BUDGET_S = 30.0


class NoSuchBrokerage(BrokerError):
    """There is no brokerage of a name."""

    exit_status = NOT_FOUND


@dataclass(frozen=True)
class Asked:
    """What is to be decided.

    Attributes:
        brokerage: by name.
        tasks: only these; None: all that are due.
        now: the instant for which it decides (aware).
        seed: of everything random.
        independent: every task meets the same grid.
        config: folder with configuration files of the operator's own.
    """

    brokerage: str
    tasks: tuple[int, ...] | None
    now: datetime
    seed: int
    independent: bool = False
    config: Path | None = None


@dataclass(frozen=True)
class Tried:
    """A decision that was not written, with what is needed to evaluate it again."""

    stored: StoredDecision
    case: Case


def decide(database: Database, asked: Asked, emit: Callable[[dict[str, Any]], None]) -> CycleReport:
    """Decide, and write nothing; ``emit`` gets the object of each decision.

    Raises:
        NoSuchBrokerage: there is none of the name.
        BrokerError: the cycle could not be made.
    """
    return _agent(asked).cycle(_context(database, asked, emit))


def try_decisions(database: Database, asked: Asked) -> list[Tried]:
    """Decide, and write nothing: the decisions as they would be stored.

    Raises:
        NoSuchBrokerage: there is none of the name.
        BrokerError: the cycle could not be made.
    """
    agent = _Trial(_agent(asked))
    agent.cycle(_context(database, asked, None))
    return agent.found


def _agent(asked: Asked) -> BrokerageAgent:
    if asked.brokerage not in registry.BROKERAGES:
        known = ", ".join(registry.BROKERAGES)
        raise NoSuchBrokerage(f"there is no brokerage {asked.brokerage[:80]}", "brokerage", f"known are {known}")
    folder = asked.config
    agents = configuration.load(configuration.config_file("agents.yaml", folder), registry.NAMES)
    section = section_of(agents, asked.brokerage)
    settings = configuration.load_process(configuration.config_file("broker.yaml", folder), folder)
    made = registry.make(asked.brokerage, {} if section is None else section.options, settings)
    if not isinstance(made, BrokerageAgent):
        raise TypeError(f"the agent {asked.brokerage} is no brokerage")
    return made


def _context(database: Database, asked: Asked, emit: Callable[[dict[str, Any]], None] | None) -> CycleContext:
    request = CycleRequest(asked.tasks, dry_run=True, independent=asked.independent, emit=emit, by_hand=True)
    return CycleContext(database, asked.now, asked.seed, BUDGET_S, request)


class _Trial(BrokerageAgent):
    """A brokerage that keeps its decisions in memory."""

    def __init__(self, agent: BrokerageAgent) -> None:
        self.__dict__.update(agent.__dict__)
        self.found: list[Tried] = []
        self._tunings: dict[int, Tuning] = {}

    def _cycle_over(self, grid: Any, work: Any, context: CycleContext, tuning: Tuning) -> Cycle[Any]:
        cycle = super()._cycle_over(grid, work, context, tuning)
        self._tunings[id(cycle)] = tuning
        return cycle

    def _assign(self, cycle: Cycle[Any], sink: Sink) -> None:
        assigned: Sequence[Any] = list(cycle.assign(sink.origin.seed, StageTimes()))
        records = records_of(self.brokerage, cycle, assigned, None, sink.origin.decided_at, self._tables.each_cycle)
        for one, record in zip(assigned, records, strict=True):
            work = cycle.encode(one)
            kept = dataclasses.replace(record, work=work)
            batch = self.brokerage.batch(unpacked(work), older=False)
            tuning = self._tunings[id(cycle)] if id(cycle) in self._tunings else next(iter(self._tunings.values()))
            case = Case(self.brokerage, sink.grid.snapshot, tuning, batch, self._rules, record.decision)
            self.found.append(Tried(StoredDecision(0, sink.origin, kept), case))


PROMISE: Literal["feasibility, no promise"] = "feasibility, no promise"
MOST_TASKS = 20


class FeasibleTask(BaseModel):
    """What would be decided about one task.

    Attributes:
        taskname: its name.
        jobs: that it would have.
        nucleus: that was drawn, or was given; null where none is needed or could be had.
        decisions: of each brokerage that would look at it, with candidates, reasons and nearest misses.
        notes: of the submission.
        start: when such a task starts that is submitted now; null where nothing was told of it.
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
        promise: what the answer is worth: the grid changes, and nothing is reserved.
        now: the instant for which it was decided.
        seed: of the draws.
        tasks: one by one, each as if it were alone.
    """

    promise: Literal["feasibility, no promise"]
    now: datetime
    seed: int
    tasks: list[FeasibleTask]


@dataclass(frozen=True)
class Question:
    """When, with which seed and configuration it is asked; ``evaluate``: look for nearest misses too."""

    now: datetime
    seed: int
    config: Path | None = None
    evaluate: bool = True


def feasibility(
    database: Database, submissions: Sequence[AnySubmission], question: Question, proceed: Proceed = proceed
) -> FeasibilityAnswer:
    """Where the tasks would go; ``proceed`` is called between the steps.

    Raises:
        NotOurTables: alongside PanDA.
        BrokerError: the snapshot cannot be made.
    """
    found = []
    for one in submissions[:MOST_TASKS]:
        with rolled_back(database) as trial:
            made = one.make(trial, question.now)
            found.append(_task(trial, one, made, question, proceed))
    return FeasibilityAnswer(promise=PROMISE, now=question.now, seed=question.seed, tasks=found)


def _task(
    trial: Database, submission: AnySubmission, made: Submitted, question: Question, proceed: Proceed
) -> FeasibleTask:
    proceed()
    columns = submission.columns
    nucleus = columns.get("nucleus")
    tried: list[Tried] = []
    if columns["prodsourcelabel"] in ANALYSIS_LABELS:
        tried += _decided(trial, "analysis_job", made.jeditaskid, question)
    else:
        if made.status == "assigning":
            tried += _decided(trial, "production_task", made.jeditaskid, question)
            nucleus = _drawn(tried)
            if nucleus is not None:
                _give(trial, made.jeditaskid, nucleus)
        if made.status != "assigning" or nucleus is not None:
            tried += _decided(trial, "production_job", made.jeditaskid, question)
    return FeasibleTask(
        taskname=made.taskname,
        jobs=made.jobs,
        nucleus=nucleus,
        decisions=[_explained(one, question.evaluate, proceed) for one in tried],
        notes=list(made.notes),
        start=_start(trial, made.jeditaskid, question),
    )


def _start(trial: Database, task: int, question: Question) -> ForecastLine | None:
    with trial.begin() as connection:
        return submitted_start(Asking(connection, trial.names, question.now, question.config), task)


def _decided(trial: Database, brokerage: str, task: int, question: Question) -> list[Tried]:
    asked = Asked(brokerage, (task,), question.now, question.seed, config=question.config)
    return try_decisions(trial, asked)


def _drawn(tried: Sequence[Tried]) -> str | None:
    return next((name for one in tried for name in one.stored.record.assigned), None)


def _give(trial: Database, task: int, nucleus: str) -> None:
    query = trial.names.sql(
        "UPDATE {panda}.jedi_tasks SET nucleus = :nucleus, status = 'ready' WHERE jeditaskid = :task"
    )
    with trial.begin() as connection:
        connection.execute(sa.text(query), {"nucleus": nucleus, "task": task})


def _explained(one: Tried, evaluate: bool, proceed: Proceed) -> ExplainedDecision:
    decision = one.stored.record.decision
    waits = decision.outcome not in ("brokered", "throttled")
    return explained(one.stored, (), evaluated_case(one.case, proceed) if evaluate and waits else None)
