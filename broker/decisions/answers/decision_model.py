"""The answer to explain: the last decisions about a task, each beginning with its verdict."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from broker.decisions.answers.parts import (
    Figure,
    FilterSummary,
    RejectedCandidate,
    TaskFacts,
)
from broker.decisions.answers.placed_together import PlacedTogether
from broker.domain.ready_check import Check
from broker.domain.rejection_counts import Counts
from broker.domain.retry import Redecide
from broker.engine.analysis.throttle import Throttle
from broker.engine.shared.answer import RuleVerdict
from broker.feeds.statements.queue_pins import HeldField
from broker.store.query_context import Answer

VerdictCode = Literal[
    "placed",
    "nucleus_drawn",
    "nucleus_preset",
    "throttled",
    "out_of_reach",
    "rejected_by_rules",
    "no_candidate_at_all",
    "input_missing",
    "came_too_late",
    "not_placed",
]


class Verdict(Answer):
    """What became of the work, in one code with its figures; the sentence is made of it.

    Attributes:
        code: what kind of outcome it is.
        reason: of the decision, or the code of the rule that rejected most queues.
        queues: how many queues that rule rejected, of ``of_queues``.
        of_queues: queues that were candidates.
        best: the candidate that is nearest, with what it lacks; or the one that was chosen.
        jobs: jobs that were placed, at ``at_queues`` queues.
        at_queues: queues at which they were placed.
    """

    code: VerdictCode
    reason: str = ""
    queues: int = 0
    of_queues: int = 0
    best: RejectedCandidate | None = None
    jobs: int = 0
    at_queues: int = 0
    chosen: str | None = None


class CandidateLine(Answer):
    """A chosen candidate: ``jobs`` were assigned to it; the weight is the product of the factors.

    ``probability``: of a weighted draw, that this candidate is drawn; of jobs, each job's. None where nothing is drawn.
    """

    name: str
    weight: float
    probability: float | None
    assigned: int
    bootstrap: bool
    factors: dict[str, float]


class Remedy(Answer):
    """One change, with which the decision was evaluated again.

    Attributes:
        kind: what is changed: a rule is switched off, a gdpconfig key, a column of the task, or a field of a queue.
        name: of the rule, key, column (``task.ramcount``) or field (``queue.maxrss``).
        where: the queue whose field is changed; None otherwise.
        now: the value as it is; None of a rule.
        to: the value with which it was evaluated; None of a rule.
        unit: of both.
        candidates: queues and pseudo-queues that would be chosen then.
        such_as: some of them.
    """

    kind: Literal["rule", "key", "task", "queue"]
    name: str
    where: str | None = None
    now: Figure = None
    to: Figure = None
    unit: str = "-"
    candidates: Counts
    such_as: tuple[str, ...] = ()


class Remedies(Answer):
    """What would help, by evaluating the decision again with one thing changed.

    ``evaluated``: whether that could be done; if not, ``why_not`` says why. ``in_the_tuning``: whether a gdpconfig
    key is among what would help.
    """

    evaluated: bool
    why_not: str = ""
    tried: int = 0
    in_the_tuning: bool = False
    helpful: tuple[Remedy, ...] = ()


class Position(Answer):
    """The place of the work among what waits, in the order in which the brokerage takes it.

    Attributes:
        place: 1 is the first.
        of: so many chunks or tasks wait in the same share at the same brokerage.
        ahead: of them are taken before, with a higher priority or an earlier number.
        gshare: whose line it is.
        decides: whether the place matters: what waits is limited by what others take.
    """

    place: int
    of: int
    ahead: int
    gshare: str | None
    priority: int | None
    decides: bool


class ExplainedDecision(Answer):
    """One decision: verdict first, then what would help, then the tables.

    ``times_seen``: so many cycles came to the same decision, the last at ``seen_at``. ``rejected`` and ``funnel`` are
    the reasons as they are stored: by name, and by rule with the pseudo-queues before and after it. ``together``: how
    the jobs of all chunks of the cycle were placed, None where each chunk was decided by itself. ``missing``: where
    nothing was a candidate, what the installation lacked in that cycle, as ``broker doctor --ready`` lists it.
    """

    id: int
    jeditaskid: int
    datasetid: int | None
    ramcount: float | None
    brokerage: str
    outcome: str
    reason: str
    decided_at: datetime
    seen_at: datetime
    times_seen: int
    pending_until: datetime | None
    redecide: Redecide | None
    snapshot: str | None
    tuning: int
    seed: int
    engine: str
    verdict: Verdict
    throttle: Throttle | None
    together: PlacedTogether | None = None
    draw: Literal["weighted", "preset"] | None
    candidate_kind: str
    assigned_kind: str
    summary: FilterSummary
    candidates: tuple[CandidateLine, ...]
    assigned: dict[str, int]
    rejected: dict[str, str]
    funnel: tuple[tuple[str, int, int], ...]
    near_misses: tuple[RejectedCandidate, ...]
    remedies: Remedies
    position: Position | None
    notes: tuple[str, ...]
    pins: tuple[HeldField, ...]
    missing: tuple[Check, ...] = ()


class TaskDecision(Answer):
    """The answer to explain: the task, and the decisions of the last cycle that looked at it."""

    now: datetime
    task: TaskFacts
    decisions: tuple[ExplainedDecision, ...]


class WhyNotLine(Answer):
    """Why one candidate was not chosen by one decision."""

    decision: int
    brokerage: str
    datasetid: int | None
    ramcount: float | None
    decided_at: datetime
    candidate: RejectedCandidate
    every_rule: tuple[RuleVerdict, ...] = ()


class WhyNot(Answer):
    """The answer to why-not, of the last decision of each brokerage that knows the name."""

    now: datetime
    jeditaskid: int
    name: str
    answers: tuple[WhyNotLine, ...]
    pins: tuple[HeldField, ...] = ()
