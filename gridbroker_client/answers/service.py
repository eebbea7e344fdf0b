"""Answers about service, from the description of the API; `make reference` writes this file."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from gridbroker_client.answers.decisions import Throttle
from gridbroker_client.answers.tasks import TaskLine


class ServiceAnswer(TypedDict):
    """The status of agents, processes and sources."""

    now: str
    agents: list[AgentLine]
    services: list[ServiceLine]
    sources: list[SourceLine]


class Alarms(TypedDict):
    """All alarms, most severe first, followed by acknowledged ones."""

    now: str
    alarms: list[Alarm]


class Me(TypedDict):
    """The identity behind the token."""

    subject: str
    issuer: str
    username: str | None
    roles: dict[str, list[str]]
    expires_at: str | None


class Reasons(TypedDict):
    """Waiting work by reason, most frequent first. The lines of a brokerage add up to its ``waiting``."""

    now: str
    compared_with: str
    waiting: dict[str, int]
    considered: dict[str, int]
    lines: list[ReasonLine]
    rules: list[RuleLine]


class UserAnswer(TypedDict):
    """A user: tasks, what throttles them, and resource use."""

    now: str
    user: str
    tasks: list[TaskLine]
    throttles: list[Throttle]
    caps: list[Throttle]
    running_jobs: float | None
    queued_jobs: float | None
    running_cores: float | None
    queued_cores: float | None
    task_classes: dict[str, str]
    quotas: list[QuotaUse]
    advice: dict[str, Literal["you", "wait", "ask"]]


class AgentLine(TypedDict):
    """An agent: when it runs, the result of its last cycle, who leads it, whether it is paused."""

    agent: str
    enabled: bool
    period_s: float | None
    last_outcome: str | None
    started_at: str | None
    finished_at: str | None
    age_s: float | None
    next_run_at: str | None
    counts: dict[str, Any]
    error: str | None
    holder: str | None
    epoch: int | None
    expires_in_s: float | None
    mean_s: float | None
    largest_s: float | None
    cycles_24h: int
    failed_24h: int
    pause: PauseLine | None
    parts: list[PartLine]


class ServiceLine(TypedDict):
    """A process of ``broker serve``."""

    holder: str
    host: str
    version: str
    started_at: str
    seen_at: str
    alive: bool
    agents: list[str]
    overdue: list[str]
    failing: dict[str, int]
    tuning: int | None


class SourceLine(TypedDict):
    """A source in the last snapshot of any brokerage: its state and age."""

    source: str
    state: str
    age_s: float | None
    limit_s: float | None
    rows: int | None


class Alarm(TypedDict):
    """A condition that needs attention: ``value`` is beyond ``limit``, which ``key`` sets."""

    code: Literal[
        "source_stale",
        "agent_overdue",
        "agent_failing",
        "agent_refused",
        "agent_paused",
        "no_leader",
        "task_starving",
        "task_flapping",
        "queue_failing",
        "queue_closed",
        "nodes_held",
        "outputs_waiting",
        "output_refused",
        "output_dataset_open",
        "config_bad_row",
        "notifications_failing",
        "decisions_worse",
    ]
    severity: Literal["critical", "warning", "info"]
    about: str
    value: float | int | str | bool | None
    limit: float | int | str | bool | None
    unit: str
    key: str
    since: str | None
    details: dict[str, float | int | str | bool | None]
    acknowledged: Acknowledgement | None


Role = dict[str, Any]


class ReasonLine(TypedDict):
    """Waiting work for one reason, now and ``compare_s`` ago."""

    brokerage: str
    reason: str
    main_code: str | None
    tasks: int
    chunks: int
    chunks_before: int | None
    oldest_since: str | None
    such_as: list[int]


class RuleLine(TypedDict):
    """How often one rule rejected queues in 24 hours."""

    brokerage: str
    code: str
    queues: int
    decides: int


class QuotaUse(TypedDict):
    """One line of an account's quota, in bytes; a null limit means no limit."""

    place: str
    used_bytes: float
    limit_bytes: float | None


class PauseLine(TypedDict):
    """A paused agent."""

    agent: str
    reason: str
    editor: str
    set_at: str
    until: str


class PartLine(TypedDict):
    """A part of the work of an agent: the result of its last cycle, and its leader."""

    part: str
    last_outcome: str | None
    started_at: str | None
    error: str | None
    holder: str | None
    epoch: int | None
    expires_in_s: float | None


class Acknowledgement(TypedDict):
    """The acknowledgement of an alarm."""

    code: str
    about: str
    severity: str
    reason: str
    editor: str
    set_at: str
    until: str
    ended_at: str | None
    ended_by: str | None
