"""The types of the answers to explain and why-not: decisions with verdict, candidates, rejections and remedies.

:class:`TaskDecision` is the answer to explain: the last decisions about a task, each (:class:`ExplainedDecision`)
beginning with its verdict. :class:`WhyNot` is the answer about one queue. :class:`PlacedTogether` lists the feasible
queues of a chunk whose cycle placed the jobs of all chunks together.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from broker.domain.counted_load import PLAN, PLAN_FALLBACK, PLAN_FIGURES, PLAN_LEFT
from broker.domain.decisions import Decision, Observation, Redecide
from broker.domain.ready_check import Check
from broker.domain.rejection_counts import Counts, Rejection
from broker.domain.words import Figure
from broker.engine.analysis.throttle import Throttle
from broker.engine.shared.answer import CandidateVerdict as CandidateAnswer, RuleVerdict
from broker.feeds.statements.queue_pins import HeldField
from broker.forecasts.answers.forecasts import ForecastLine
from broker.store.query_context import ResponseModel


class FilterSummary(ResponseModel):
    """The candidates of a decision: ``start`` is the sum of all rejections and ``chosen``, in both columns.

    ``not_candidates``: names in a task that match no candidate, with the reason; they are not counted.
    """

    start: Counts
    rejections: tuple[Rejection, ...]
    chosen: Counts
    not_candidates: dict[str, str] = Field(default_factory=dict)


class RejectedCandidate(ResponseModel):
    """A rejected candidate with the deciding rule, as why-not shows it.

    ``gap_percent``: distance of the value beyond the limit, in per cent of the limit; null if that is no distance.
    """

    name: str
    code: str
    rule: str
    kind: str
    title: str
    compared: Observation | None
    gap_percent: float | None = None


class TaskFacts(ResponseModel):
    """The requests of a task and its submitter. null: the task has no such value, or is no longer on record."""

    jeditaskid: int
    taskname: str | None = None
    status: str | None = None
    username: str | None = None
    workinggroup: str | None = None
    prodsourcelabel: str | None = None
    processingtype: str | None = None
    gshare: str | None = None
    currentpriority: int | None = None
    corecount: int | None = None
    ramcount: int | None = None
    ramunit: str | None = None
    walltime: int | None = None
    walltimeunit: str | None = None
    nucleus: str | None = None
    site: str | None = None
    created_at: datetime | None = None
    waiting_since: datetime | None = None
    next_try_at: datetime | None = None
    redecide: Redecide | None = None
    errordialog: str | None = None


def rejected_candidate(answer: CandidateAnswer) -> RejectedCandidate:
    """Convert the engine's answer about a candidate to a part of an answer."""
    return RejectedCandidate(
        name=answer.queue,
        code=answer.code,
        rule=answer.rule,
        kind=answer.kind,
        title=answer.title,
        compared=answer.observation,
        gap_percent=gap_percent(answer.observation),
    )


def gap_percent(seen: Observation | None) -> float | None:
    """How far the value is beyond the limit, in per cent of the limit; None where either is no positive number."""
    if seen is None or not _is_number(seen.value) or not _is_number(seen.limit):
        return None
    value, limit = float(seen.value or 0), float(seen.limit or 0)
    if limit <= 0 or seen.operator not in ("<", "<=", ">", ">="):
        return None
    beyond = value - limit if seen.operator in ("<", "<=") else limit - value
    return max(0.0, 100.0 * beyond / limit)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_LEFT, _FALLBACK = f"{PLAN_LEFT}:", f"{PLAN_FALLBACK}:"


class FeasibleQueue(ResponseModel):
    """A queue left by all filters and cuts.

    Attributes:
        name: name of the pseudo-queue.
        planned: jobs that the program placed there.
        dearer_hs06h: extra cost in HS06 h of one more job there, compared with the best use of it.
        code: binding constraint if the queue got no jobs; empty if it got some.
    """

    name: str
    planned: int
    dearer_hs06h: float
    code: str


class PlacedTogether(ResponseModel):
    """How the program of the cycle placed the jobs of a chunk.

    Attributes:
        queues: queues left by filters and cuts, cheapest first.
        left: jobs that were not placed.
        fallback: why each chunk was placed by itself (``time_limit``); empty otherwise.
    """

    queues: tuple[FeasibleQueue, ...]
    left: int
    fallback: str


def is_of_program(note: str) -> bool:
    """Whether a note of a decision is shown by :class:`PlacedTogether`."""
    return note.startswith((f"{PLAN}:", _LEFT, _FALLBACK))


def placed_together(decision: Decision) -> PlacedTogether | None:
    """Read the placement from the notes of a decision; None if its chunk was decided by itself."""
    left, fallback = 0, ""
    queues = []
    for note in filter(is_of_program, decision.notes):
        if note.startswith(_LEFT):
            left = int(note.removeprefix(_LEFT))
        elif note.startswith(_FALLBACK):
            fallback = note.removeprefix(_FALLBACK)
        else:
            queues.append(_queue(note.removeprefix(f"{PLAN}:"), decision))
    if not queues:
        return None
    queues.sort(key=lambda queue: (not queue.planned, queue.dearer_hs06h, -queue.planned, queue.name))
    return PlacedTogether(queues=tuple(queues), left=left, fallback=fallback)


def _queue(text: str, decision: Decision) -> FeasibleQueue:
    name, *figures = text.rsplit(" ", len(PLAN_FIGURES))
    values = dict(figure.split("=", 1) for figure in figures)
    code = decision.rejected.get(name, "")
    return FeasibleQueue(name=name, planned=int(values["jobs"]), dearer_hs06h=float(values["dearer_hs06h"]), code=code)


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


class Verdict(ResponseModel):
    """The outcome of the work, as one code with its figures; the sentence is built from it.

    Attributes:
        code: kind of outcome.
        reason: reason of the decision, or the code of the rule that rejected most queues.
        queues: number of queues that this rule rejected, of ``of_queues``.
        of_queues: number of candidate queues.
        best: nearest candidate, with what it lacks; or the chosen candidate.
        jobs: jobs placed, at ``at_queues`` queues.
        at_queues: number of queues at which they were placed.
    """

    code: VerdictCode
    reason: str = ""
    queues: int = 0
    of_queues: int = 0
    best: RejectedCandidate | None = None
    jobs: int = 0
    at_queues: int = 0
    chosen: str | None = None


class CandidateLine(ResponseModel):
    """A chosen candidate: ``jobs`` were assigned to it; the weight is the product of the factors.

    ``probability``: of a weighted draw, that this candidate is drawn; of jobs, each job's. null if nothing is drawn.
    """

    name: str
    weight: float
    probability: float | None
    assigned: int
    bootstrap: bool
    factors: dict[str, float]


class Remedy(ResponseModel):
    """One change with which the decision was evaluated again.

    Attributes:
        kind: what is changed: a rule is switched off, a gdpconfig key, a column of the task, or a field of a queue.
        name: name of the rule, key, column (``task.ramcount``) or field (``queue.maxrss``).
        where: queue whose field is changed; null otherwise.
        now: current value; null for a rule.
        to: value used in the evaluation; null for a rule.
        unit: unit of both values.
        candidates: number of queues and pseudo-queues that would then be chosen.
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


class Remedies(ResponseModel):
    """Changes that would help, found by evaluating the decision again with one thing changed.

    ``evaluated``: whether that could be done; if not, ``why_not`` says why. ``in_the_tuning``: whether a gdpconfig
    key is among what would help.
    """

    evaluated: bool
    why_not: str = ""
    tried: int = 0
    in_the_tuning: bool = False
    helpful: tuple[Remedy, ...] = ()


class Position(ResponseModel):
    """The place of waiting work, in the order in which the brokerage takes it.

    Attributes:
        place: place in the order; 1 is the first.
        of: number of chunks or tasks that wait in the same share at the same brokerage.
        ahead: number of these taken before it, with a higher priority or an earlier number.
        gshare: share of the order.
        decides: whether the place matters: waiting work is limited by what other work takes.
    """

    place: int
    of: int
    ahead: int
    gshare: str | None
    priority: int | None
    decides: bool


class ExplainedDecision(ResponseModel):
    """One decision: verdict first, then what would help, then the tables.

    ``times_seen``: number of cycles with the same decision, the last at ``seen_at``. ``rejected`` and ``funnel`` are
    the reasons as they are stored: by name, and by rule with the pseudo-queues before and after it. ``together``: how
    the jobs of all chunks of the cycle were placed, null if each chunk was decided by itself. ``missing``: if
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


class TaskDecision(ResponseModel):
    """The answer of explain: the task, and the decisions of the last cycle that considered it.

    Attributes:
        start: when its next job will start; null if there is no forecast.
    """

    now: datetime
    task: TaskFacts
    decisions: tuple[ExplainedDecision, ...]
    start: ForecastLine | None = None


class WhyNotLine(ResponseModel):
    """Why one decision did not choose a candidate."""

    decision: int
    brokerage: str
    datasetid: int | None
    ramcount: float | None
    decided_at: datetime
    candidate: RejectedCandidate
    every_rule: tuple[RuleVerdict, ...] = ()


class WhyNot(ResponseModel):
    """The answer of why-not, from the last decision of each brokerage that knows the name."""

    now: datetime
    jeditaskid: int
    name: str
    answers: tuple[WhyNotLine, ...]
    pins: tuple[HeldField, ...] = ()
