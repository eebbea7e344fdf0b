"""Answers about decisions, from the description of the API; `make reference` writes this file."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class TaskDecision(TypedDict):
    """The answer of explain: the task, and the decisions of the last cycle that considered it."""

    now: str
    task: TaskFacts
    decisions: list[ExplainedDecision]
    start: ForecastLine | None


class WhyNot(TypedDict):
    """The answer of why-not, from the last decision of each brokerage that knows the name."""

    now: str
    jeditaskid: int
    name: str
    answers: list[WhyNotLine]
    pins: list[HeldField]


class TaskFacts(TypedDict):
    """The requests of a task and its submitter. null: the task has no such value, or is no longer on record."""

    jeditaskid: int
    taskname: str | None
    status: str | None
    username: str | None
    workinggroup: str | None
    prodsourcelabel: str | None
    processingtype: str | None
    gshare: str | None
    currentpriority: int | None
    corecount: int | None
    ramcount: int | None
    ramunit: str | None
    walltime: int | None
    walltimeunit: str | None
    nucleus: str | None
    site: str | None
    created_at: str | None
    waiting_since: str | None
    next_try_at: str | None
    redecide: Literal["timers", "each_cycle"] | None
    errordialog: str | None


class ExplainedDecision(TypedDict):
    """One decision: verdict first, then what would help, then the tables."""

    id: int
    jeditaskid: int
    datasetid: int | None
    ramcount: float | None
    brokerage: str
    outcome: str
    reason: str
    decided_at: str
    seen_at: str
    times_seen: int
    pending_until: str | None
    redecide: Literal["timers", "each_cycle"] | None
    snapshot: str | None
    tuning: int
    seed: int
    engine: str
    verdict: Verdict
    throttle: Throttle | None
    together: PlacedTogether | None
    draw: Literal["weighted", "preset"] | None
    candidate_kind: str
    assigned_kind: str
    summary: FilterSummary
    candidates: list[CandidateLine]
    assigned: dict[str, int]
    rejected: dict[str, str]
    funnel: list[list[Any]]
    near_misses: list[RejectedCandidate]
    remedies: Remedies
    position: Position | None
    notes: list[str]
    pins: list[HeldField]
    missing: list[ReadyCheckCheck]


class ForecastLine(TypedDict):
    """The start of the next work of a queue's line, a task, or a kind of task."""

    kind: Literal["queue", "task", "task_kind"]
    subject: str
    queue: str | None
    share: str | None
    jeditaskid: int | None
    situation: str
    made_at: str | None
    age_s: float | None
    p10_s: float | None
    p50_s: float | None
    p90_s: float | None
    horizon_s: float | None
    basis: Literal["history", "history and roll-out"]
    n: int
    unknown: str
    sentence: str


class WhyNotLine(TypedDict):
    """Why one decision did not choose a candidate."""

    decision: int
    brokerage: str
    datasetid: int | None
    ramcount: float | None
    decided_at: str
    candidate: RejectedCandidate
    every_rule: list[RuleVerdict]


class HeldField(TypedDict):
    """A field of a queue that an operator holds, regardless of CRIC."""

    queue: str
    field: str
    value: Any
    reason: str
    editor: str
    set_at: str
    until: str


class Verdict(TypedDict):
    """The outcome of the work, as one code with its figures; the sentence is built from it."""

    code: Literal[
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
    reason: str
    queues: int
    of_queues: int
    best: RejectedCandidate | None
    jobs: int
    at_queues: int
    chosen: str | None


class Throttle(TypedDict):
    """Why a chunk gets no jobs now: the condition, the observed figure, and the cap that it exceeds."""

    condition: str
    figure: float
    cap: float
    unit: str
    key: str


class PlacedTogether(TypedDict):
    """How the program of the cycle placed the jobs of a chunk."""

    queues: list[FeasibleQueue]
    left: int
    fallback: str


class FilterSummary(TypedDict):
    """The candidates of a decision: ``start`` is the sum of all rejections and ``chosen``, in both columns."""

    start: Counts
    rejections: list[Rejection]
    chosen: Counts
    not_candidates: dict[str, str]


class CandidateLine(TypedDict):
    """A chosen candidate: ``jobs`` were assigned to it; the weight is the product of the factors."""

    name: str
    weight: float
    probability: float | None
    assigned: int
    bootstrap: bool
    factors: dict[str, float]


class RejectedCandidate(TypedDict):
    """A rejected candidate with the deciding rule, as why-not shows it."""

    name: str
    code: str
    rule: str
    kind: str
    title: str
    compared: Observation | None
    gap_percent: float | None


class Remedies(TypedDict):
    """Changes that would help, found by evaluating the decision again with one thing changed."""

    evaluated: bool
    why_not: str
    tried: int
    in_the_tuning: bool
    helpful: list[Remedy]


class Position(TypedDict):
    """The place of waiting work, in the order in which the brokerage takes it."""

    place: int
    of: int
    ahead: int
    gshare: str | None
    priority: int | None
    decides: bool


class ReadyCheckCheck(TypedDict):
    """One line of the list."""

    topic: str
    level: Literal["ok", "note", "problem"]
    usable: int | None
    of: int | None
    finding: str
    remedy: str
    why_not: dict[str, str]


class RuleVerdict(TypedDict):
    """The verdict of one rule on the candidate."""

    rule: str
    code: str
    kind: str
    verdict: Literal["pass", "fail", "not_reached", "unknown", "not_asked"]
    compared: Observation | None


class FeasibleQueue(TypedDict):
    """A queue left by all filters and cuts."""

    name: str
    planned: int
    dearer_hs06h: float
    code: str


class Counts(TypedDict):
    """Numbers of candidates. ``queues``: unified queues, or nuclei; ``pseudo_queues``: theirs, null for nuclei."""

    queues: int
    pseudo_queues: int | None


class Rejection(TypedDict):
    """The candidates rejected for one reason, and those that remained; the reasons are in the order of the rules."""

    code: str
    rejected: Counts
    remaining: Counts
    such_as: list[str]


class Observation(TypedDict):
    """Why a rule decided as it did about one chunk and one candidate."""

    value: float | int | str | bool | None
    operator: Literal["<", "<=", ">", ">=", "==", "!=", "in", "not in", "matches"]
    limit: float | int | str | bool | None
    unit: str
    key: str
    inputs: dict[str, float | int | str | bool | None]


class Remedy(TypedDict):
    """One change with which the decision was evaluated again."""

    kind: Literal["rule", "key", "task", "queue"]
    name: str
    where: str | None
    now: float | int | str | bool | None
    to: float | int | str | bool | None
    unit: str
    candidates: Counts
    such_as: list[str]
