"""Feasibility: where a task would go now, and why not elsewhere, before it is submitted. Nothing is reserved or kept.

The task is really submitted and really brokered, in a transaction that is rolled back: what answers is the code that
will decide, on the grid as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import sqlalchemy as sa
from pydantic import BaseModel

from broker.decisions.answers.decision import explained
from broker.decisions.answers.decision_model import ExplainedDecision
from broker.decisions.answers.remedies import evaluated_case
from broker.decisions.answers.trial_decisions import Asked, Tried, try_decisions
from broker.store.connection.database import Database
from broker.store.connection.rolled_back import rolled_back
from broker.store.query_context import Proceed, proceed
from broker.store.reads.chunk_reads import ANALYSIS_LABELS
from broker.tasks.statements.task_rows import AnySubmission, Submitted

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
    """

    taskname: str
    jobs: int
    nucleus: str | None
    decisions: list[ExplainedDecision]
    notes: list[str]


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
    )


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
