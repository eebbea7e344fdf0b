"""The answers that are lists over many tasks: tasks, reasons, users."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from broker.decisions.answers.decision_model import TaskFacts
from broker.engine.analysis.throttle import Throttle
from broker.history.statements.task_facts import MOST_LINES as MOST_LINES
from broker.store.query_context import Answer


class TaskFilters(Answer):
    """Filters of tasks, all of which must hold. Names of queues and nuclei match in upper or lower case.

    Attributes:
        user: ``username`` of the task.
        status: of the task, in PanDA's words; or an outcome of the last decision (``throttled``, ``pending``).
        reason: of the last decision, or the code of the rule that rejected most queues.
        queue: at which its jobs were placed by the last decision.
        nucleus: of the task.
        gshare: of the task.
        since: brokered or waiting at this instant or later.
        limit: so many lines.
        after: only tasks behind this one in the list, for the next page.
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


class TaskLine(Answer):
    """A task with what the brokerages last decided about it.

    Attributes:
        brokerage: that decided last; None: none has looked at the task.
        outcome: of that decision: pending if any of its chunks waits.
        reason: of the chunk that waits, or of the decision.
        main_code: the main reason: the code that rejected most queues where rules left none, else the reason.
        chunks: input chunks decided last.
        chunks_waiting: of them that got no queue.
        jobs: that were placed.
        queues: at which they were placed.
        waiting_since: first of the decisions, without a break, that did not place it.
        times_seen: so many cycles in a row came to this.
        decided_at: when the last cycle looked at it.
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


class TaskList(Answer):
    """Tasks: those that wait come first, the longest wait before the others. ``total`` match, ``tasks`` are shown."""

    now: datetime
    filters: TaskFilters
    total: int
    tasks: tuple[TaskLine, ...]
    next_after: int | None = None


class ReasonFilters(Answer):
    """Which reasons: of one brokerage or of all; ``compare_s``: against how long ago, in seconds.

    ``with_rules``: also how often each rule rejected queues, for which every decision has to be read.
    """

    brokerage: str | None = None
    compare_s: float = Field(default=3600.0, gt=0)
    with_rules: bool = False


class ReasonLine(Answer):
    """What waits for one reason, now and ``compare_s`` ago.

    Attributes:
        reason: of the decisions.
        main_code: the main reason: the code that rejected most queues where rules left none, else the reason.
        tasks: that wait for it.
        chunks: that wait for it.
        chunks_before: that waited for it then; None where nothing is on record of that time.
        oldest_since: since when the first of them waits.
        such_as: some of the tasks, the longest wait first.
    """

    brokerage: str
    reason: str
    main_code: str | None
    tasks: int
    chunks: int
    chunks_before: int | None
    oldest_since: datetime | None
    such_as: tuple[int, ...]


class RuleLine(Answer):
    """How often one rule rejected queues in 24 hours.

    Attributes:
        queues: that it rejected, over all decisions.
        decides: chunks that wait now of which it rejected most queues.
    """

    brokerage: str
    code: str
    queues: int
    decides: int


class Reasons(Answer):
    """What waits, by reason, most frequent first. The lines of a brokerage add up to its ``waiting``."""

    now: datetime
    compared_with: datetime
    waiting: dict[str, int]
    considered: dict[str, int]
    lines: tuple[ReasonLine, ...]
    rules: tuple[RuleLine, ...]


class QuotaUse(Answer):
    """One line of an account's quota, in bytes; a limit of None: there is none."""

    place: str
    used_bytes: float
    limit_bytes: float | None


class UserAnswer(Answer):
    """A user: his tasks, what throttles them, and what he uses.

    Attributes:
        running_jobs: of all his tasks outside working groups.
        caps: for each figure its cap, with the key that sets it; 0 is no cap.
        advice: for each code of a reason among his tasks, who can do something: ``you``, ``wait`` or ``ask``.
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
