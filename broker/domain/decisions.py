"""Decisions and their parts: outcome, reasons, candidates, origin, and when waiting work is decided again.

- :class:`Request`: columns of ``jedi_tasks`` that a user may lower to fit more queues; :class:`ColumnChange`.
- :class:`Reason`: what a code means, who can act, and how; stated by the rule or step that gives the code.
- :class:`Decision` with :class:`Candidate`, :class:`FunnelStep` and :class:`Observation`: one task or chunk, decided.
- :func:`redecided`: by what waiting work is decided again (``each_cycle``, ``timers``, or None if it does not wait);
  :func:`pending_minutes`: how long it waits first.
- :class:`Origin`, :class:`DecisionRecord`, :class:`StoredDecision`: a decision as it is stored and read back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol


@dataclass(frozen=True)
class Request:
    """A figure that tasks request.

    Attributes:
        name: column of ``jedi_tasks``.
        columns: columns of the work table that hold it.
        unit: its unit, or the name of the column that holds the unit.
    """

    name: str
    columns: tuple[str, ...]
    unit: str


RAMCOUNT = Request("ramcount", ("ramcount", "task_ramcount"), "ramunit")
WALLTIME = Request("walltime", ("walltime",), "walltimeunit")
CPUTIME = Request("cputime", ("cputime",), "cputimeunit")
WORKDISKCOUNT = Request("workdiskcount", ("workdiskcount",), "workdiskunit")
OUTDISKCOUNT = Request("outdiskcount", ("outdiskcount",), "outdiskunit")
IOINTENSITY = Request("iointensity", ("iointensity",), "kB/s")

#: All requests, in the order in which they are tried.
REQUESTS = (RAMCOUNT, WALLTIME, CPUTIME, WORKDISKCOUNT, OUTDISKCOUNT, IOINTENSITY)


@dataclass(frozen=True)
class ColumnChange:
    """A change of columns of a task or of its files.

    Attributes:
        reason: reason in plain words.
        before: columns with their previous values.
        after: columns with their new values; empty if nothing changes.
    """

    reason: str
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)


Who = Literal["you", "wait", "ask"]


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why a candidate is rejected, or why a chunk or task waits, stated by the rule or step that gives the code.

    Texts are plain English in Markdown, for a user of the grid. ``title``, ``violation`` and ``no_candidate`` end
    without a full stop, since they become parts of sentences.

    Attributes:
        code: what is stored with decisions: PanDA's criteria token without the sign where one exists. A part in
            capitals at the end, as in ``unknown_RULE``, stands for any name.
        title: one line: for a rule, the condition that kept candidates meet; for a step, what happened.
        violation: what is wrong, in one line; empty if ``title`` already says so.
        no_candidate: completes "No queue ...", for work whose candidates all have this reason; empty for a reason that
            is not about candidates.
        who: who can act: the user who submitted the work (``you``), nobody, since it passes by itself (``wait``), or
            those who run the sites and the broker (``ask``).
        cure: what they can do, in full sentences.
        requests: figures of the task that the rule compares, and that a user may lower.
        limit: field of the queue that the rule compares with the requests (``queue.maxrss``); empty without one.
        tuned_by: for a placement of all chunks together: gdpconfig key of the limit that binds; empty without one.
    """

    code: str
    title: str
    violation: str = ""
    no_candidate: str = ""
    who: Who
    cure: str
    requests: tuple[Request, ...] = ()
    limit: str = ""
    tuned_by: str = ""

    @property
    def wrong(self) -> str:
        """The violation, or else the title, in one capitalised line without a full stop."""
        text = self.violation or self.title
        return text[:1].upper() + text[1:]

    @property
    def stem(self) -> str:
        """Prefix of the codes of a family, such as ``unknown_`` of ``unknown_RULE``; empty for a single code."""
        stem, _, last = self.code.rpartition("_")
        return f"{stem}_" if last.isupper() else ""


def undeclared(code: str, title: str) -> Reason:
    """The reason for a rule of a package that declares only ``code`` and ``title``."""
    return Reason(
        code=code,
        title=title,
        violation=f'This does not hold: "{title}"',
        no_candidate=f"passes {code}",
        who="ask",
        cure="Ask the operators: the rule comes from a package of theirs, which does not say more.",
    )


Outcome = Literal["brokered", "pending", "throttled", "skipped"]
Operator = Literal["<", "<=", ">", ">=", "==", "!=", "in", "not in", "matches"]
Persistence = Literal["persistent", "temporary"]
UnknownPolicy = Literal["keep", "reject"]
Value = float | int | str | bool | None

TASK_CHANGED, FILES_CHANGED = "task_changed", "files_changed"
"""Reasons of decisions that were correct when made, but came too late.

The second is also a note on a decision some of whose jobs were not written, with their number: ``files_changed:3``.
"""
TOO_LATE_REASONS = (
    Reason(
        code=TASK_CHANGED,
        title="the task changed, or stayed locked by another agent, while it was brokered",
        who="wait",
        cure="Wait for the next cycle, which reads the task as it is then; until then the decision before holds.",
    ),
    Reason(
        code=FILES_CHANGED,
        title="all files of the chunk changed while it was brokered",
        who="wait",
        cure="Wait for the next cycle, which reads the files as they are then; until then the decision before holds.",
    ),
)


def is_late(outcome: str) -> bool:
    """Whether a decision was not written, so that its chunk stays as the previous decision left it."""
    return outcome == "skipped"


@dataclass(frozen=True)
class Observation:
    """Why a rule decided as it did about one chunk and one candidate.

    The rule keeps the candidate if ``value operator limit`` holds. ``unit`` applies to both; ``key`` names what set
    the limit: a gdpconfig key, a CRIC field of the queue (``queue.maxrss``), a column of the task (``task.ramcount``)
    or ``rule`` for a constant of the specification. ``inputs``: figures from which value and limit were calculated.
    """

    value: Value
    operator: Operator
    limit: Value
    unit: str
    key: str
    inputs: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidate:
    """A chosen candidate: its final weight and each factor by name (the weight is their product)."""

    name: str
    weight: float
    factors: dict[str, float]
    bootstrap: bool = False


@dataclass(frozen=True)
class FunnelStep:
    """A rule that rejected candidates, and their number (pseudo-queues) before and after it."""

    code: str
    before: int
    after: int


@dataclass(frozen=True)
class Decision:
    """The decision of a brokerage about one task or chunk, with everything needed to decide it again.

    ``rejected`` maps pseudo-queues, and unified queues with no pseudo-queue left, to the code of the rule. ``notes``
    holds typed remarks (unknown sources and how they were handled).

    In a cycle they are packed: :class:`~broker.codec.packed_reasons.RejectedNames`,
    :class:`~broker.codec.packed_reasons.FunnelSteps`, :class:`~broker.domain.chosen_candidates.ChosenCandidates` and
    :class:`~broker.codec.packed_remarks.Notes` unpack names and texts on access. They equal their plain forms.
    """

    jeditaskid: int
    datasetid: int | None
    ramcount: float | None
    brokerage: str
    outcome: Outcome
    reason: str
    candidates: Sequence[Candidate]
    rejected: Mapping[str, str]
    funnel: Sequence[FunnelStep]
    notes: Sequence[str] = ()

    def pending(self, reason: str) -> Decision:
        """Return the decision as pending: nothing is assigned and the work waits for ``reason``."""
        return replace(self, outcome="pending", reason=reason)


Redecide = Literal["timers", "each_cycle"]
"""When waiting work is decided again: after the times of the specification, or in each cycle."""

WAITING = ("pending", "throttled")
"""Outcomes of decisions after which the work waits."""

RETRY_AFTER = timedelta(minutes=30)
"""How long a task waits for which no nucleus was found. Source: ATLAS Production Task Brokerage."""

PENDING_MINUTES = 60
"""How long a task with no queue left waits. Source: ATLAS Production Job Brokerage."""

PENDING_MINUTES_OF_USERS = 20
"""How long a user's task with no queue left waits. Source: ATLAS Analysis Job Brokerage."""


def redecided(outcome: str, pending_until: datetime | None) -> Redecide | None:
    """When work is decided again after a decision; None if it does not wait."""
    if outcome not in WAITING:
        return None
    return "each_cycle" if pending_until is None else "timers"


def first_redecided(decisions: Iterable[tuple[str, datetime | None]]) -> Redecide | None:
    """When the first of several decisions, given by outcome and end of waiting, is decided again; None for never."""
    answers = {redecided(*one) for one in decisions}
    return "each_cycle" if "each_cycle" in answers else "timers" if "timers" in answers else None


def pending_minutes(*, for_users: bool) -> int:
    """How many minutes a task with no queue left waits."""
    return PENDING_MINUTES_OF_USERS if for_users else PENDING_MINUTES


class TaskSelection(Protocol):
    """Selects the tasks on which other tuning values are tried: a canary."""

    def chooses(self, jeditaskid: int) -> bool:
        """Whether the values are tried on this task."""


@dataclass(frozen=True)
class Origin:
    """Fields that all decisions of a cycle share.

    Attributes:
        agent_run: the run that decided.
        decided_at: the instant for which it decided (aware).
        snapshot: id of the snapshot.
        tuning: version of the gdpconfig values.
        seed: seed of everything random.
        engine: version of the broker.
        canary: selection of the tasks on which other values are tried; for decisions read back, ``tuning`` tells it.
        canary_tuning: version of the gdpconfig values for these tasks.
        only_recorded: whether nothing but the decisions was written, as alongside JEDI.
    """

    agent_run: int | None
    decided_at: datetime
    snapshot: str | None
    tuning: int
    seed: int
    engine: str
    canary: TaskSelection | None = None
    canary_tuning: int = 0
    only_recorded: bool = False

    def tuning_for(self, jeditaskid: int) -> int:
        """Version of the gdpconfig values by which a task was brokered."""
        chosen = self.canary is not None and self.canary.chooses(jeditaskid)
        return self.canary_tuning if chosen else self.tuning


@dataclass(frozen=True)
class DecisionRecord:
    """A decision with the jobs written for it.

    Attributes:
        decision: the decision.
        assigned: written jobs by unified queue (alongside PanDA: jobs that would have been created).
        pending_until: when the task is brokered again, if it has to wait.
        work: the decided chunk, in a form that can be decided again.
    """

    decision: Decision
    assigned: Mapping[str, int] = field(default_factory=dict)
    pending_until: datetime | None = None
    work: bytes | None = None


@dataclass(frozen=True)
class StoredOutcome:
    """The outcome of a stored decision, its reason, and its stored work; empty if it was stored without work."""

    outcome: Outcome
    reason: str
    assigned: Mapping[str, int]
    work: bytes = field(repr=False)


@dataclass(frozen=True)
class StoredDecision:
    """A decision as read back.

    Attributes:
        id: number of its row.
        origin: origin of its cycle.
        record: the decision and its outcome.
        seen_again: number of later cycles of the day that reached the same decision and have no row of their own.
        last_seen_at: the instant of the last of them; None if there was none.
        last_agent_run: the run of the last of them.
    """

    id: int
    origin: Origin
    record: DecisionRecord
    seen_again: int = 0
    last_seen_at: datetime | None = None
    last_agent_run: int | None = None
