"""Answers that list many items: tasks, reasons, users."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from broker.decisions.answers.decision_model import TaskFacts
from broker.engine.analysis.throttle import Throttle
from broker.history.statements.task_facts import MOST_LINES as MOST_LINES
from broker.store.query_context import ResponseModel


class TaskFilters(ResponseModel):
    """Filters of tasks; all must match. Names of queues and nuclei are case-insensitive.

    Attributes:
        user: ``username`` of the task.
        status: status of the task, in PanDA's terms, or an outcome of the last decision (``throttled``, ``pending``).
        reason: reason of the last decision, or the code of the rule that rejected most queues.
        queue: queue where the last decision placed its jobs.
        nucleus: nucleus of the task.
        gshare: global share of the task.
        since: only tasks brokered or waiting at this instant or later.
        limit: maximum number of tasks.
        after: only tasks after this one in the list, for the next page.
    """

    user: str | None = None
    status: str | None = None
    reason: str | None = None
    queue: str | None = None
    nucleus: str | None = None
    gshare: str | None = None
    since: datetime | None = None
    limit: int = Field(default=1000, ge=1, le=MOST_LINES)
    after: int | None = None


class TaskLine(ResponseModel):
    """A task with the last decision of the brokerages.

    Attributes:
        brokerage: brokerage that decided last; null if none has considered the task.
        outcome: outcome of that decision: pending if any of its chunks waits.
        reason: reason of the waiting chunk, or of the decision.
        main_code: main reason: the code that rejected most queues if rules left none, else the reason.
        chunks: input chunks decided last.
        chunks_waiting: number of these that got no queue.
        jobs: number of placed jobs.
        queues: queues where they were placed.
        times_seen: number of consecutive cycles with this result.
        decided_at: time of the last cycle that considered the task.
    """

    task: TaskFacts
    brokerage: str | None
    outcome: str | None
    reason: str | None
    main_code: str | None
    chunks: int
    chunks_waiting: int
    jobs: int
    queues: tuple[str, ...]
    times_seen: int
    decided_at: datetime | None
    throttle: Throttle | None = None


class TaskList(ResponseModel):
    """Tasks, longest waiting first, then those that do not wait. ``total`` match; ``tasks`` are returned."""

    now: datetime
    filters: TaskFilters
    total: int
    tasks: tuple[TaskLine, ...]
    next_after: int | None = None


class ReasonFilters(ResponseModel):
    """Filters of reasons: one brokerage or all; ``compare_s``: age of the time to compare with, in seconds.

    ``with_rules``: also count the rejections of each rule, which requires reading every decision.
    """

    brokerage: str | None = None
    compare_s: float = Field(default=3600.0, gt=0)
    with_rules: bool = False


class ReasonLine(ResponseModel):
    """Waiting work for one reason, now and ``compare_s`` ago.

    Attributes:
        reason: reason of the decisions.
        main_code: main reason: the code that rejected most queues if rules left none, else the reason.
        tasks: number of tasks that wait for it.
        chunks: number of chunks that wait for it.
        chunks_before: number of chunks that waited for it then; null if nothing is on record.
        oldest_since: start of the longest wait.
        such_as: some of the tasks, longest wait first.
    """

    brokerage: str
    reason: str
    main_code: str | None
    tasks: int
    chunks: int
    chunks_before: int | None
    oldest_since: datetime | None
    such_as: tuple[int, ...]


class RuleLine(ResponseModel):
    """How often one rule rejected queues in 24 hours.

    Attributes:
        queues: number of queues that it rejected, over all decisions.
        decides: number of waiting chunks for which it rejected most queues.
    """

    brokerage: str
    code: str
    queues: int
    decides: int


class Reasons(ResponseModel):
    """Waiting work by reason, most frequent first. The lines of a brokerage add up to its ``waiting``."""

    now: datetime
    compared_with: datetime
    waiting: dict[str, int]
    considered: dict[str, int]
    lines: tuple[ReasonLine, ...]
    rules: tuple[RuleLine, ...]


class QuotaUse(ResponseModel):
    """One line of an account's quota, in bytes; a null limit means no limit."""

    place: str
    used_bytes: float
    limit_bytes: float | None


class UserAnswer(ResponseModel):
    """A user: tasks, what throttles them, and resource use.

    Attributes:
        running_jobs: running jobs of all the user's tasks outside working groups.
        caps: cap of each figure, with the key that sets it; 0 means no cap.
        advice: who can act on each reason code among the user's tasks: ``you``, ``wait`` or ``ask``.
    """

    now: datetime
    user: str
    tasks: tuple[TaskLine, ...]
    throttles: tuple[Throttle, ...]
    caps: tuple[Throttle, ...]
    running_jobs: float | None
    queued_jobs: float | None
    running_cores: float | None
    queued_cores: float | None
    task_classes: dict[int, str]
    quotas: tuple[QuotaUse, ...]
    advice: dict[str, Literal["you", "wait", "ask"]]
