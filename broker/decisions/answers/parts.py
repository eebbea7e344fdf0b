"""Objects that several answers are made of: numbers of candidates, comparisons, near misses, facts of a task."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from broker.domain.decisions import Observation
from broker.domain.rejection_counts import Counts, Rejection
from broker.domain.retry import Redecide
from broker.engine.shared.answer import Answer as CandidateAnswer
from broker.store.query_context import Answer

Figure = float | int | str | bool | None


class FilterSummary(Answer):
    """The candidates of a decision: ``start`` is the sum of all rejections and of ``chosen``, in both columns.

    ``not_candidates`` are names of a task that stand for no candidate, with the reason; they count nowhere.
    """

    start: Counts
    rejections: tuple[Rejection, ...]
    chosen: Counts
    not_candidates: dict[str, str] = Field(default_factory=dict)


class RejectedCandidate(Answer):
    """A candidate with the rule that decided, as why-not shows it.

    ``gap_percent``: how far the value is beyond the limit, in per cent of the limit; None where that is no distance.
    """

    name: str
    code: str
    rule: str
    kind: str
    title: str
    compared: Observation | None
    gap_percent: float | None = None


class TaskFacts(Answer):
    """Who asks for what. None: the task has no such value, or is not on record any more."""

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
    """The engine's answer about a candidate, as a part of an answer."""
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
