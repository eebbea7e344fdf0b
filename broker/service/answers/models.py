"""Answers about the broker itself: agents, services, alarms, rules; and single pools and jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from broker.domain.words import Figure
from broker.store.query_context import ResponseModel
from broker.store.service.acknowledged_alarms import Acknowledgement
from broker.store.service.agent_pauses import PauseLine


class PartLine(ResponseModel):
    """A part of the work of an agent: the result of its last cycle, and its leader."""

    part: str
    last_outcome: str | None
    started_at: datetime | None
    error: str | None
    holder: str | None
    epoch: int | None
    expires_in_s: float | None


class AgentLine(ResponseModel):
    """An agent: when it runs, the result of its last cycle, who leads it, whether it is paused.

    For an agent whose work is divided between brokers, ``holder`` names the leaders of all parts, and the last cycle
    is the newest of any part that did not end well, else the newest of all.
    """

    agent: str
    enabled: bool
    period_s: float | None
    last_outcome: str | None
    started_at: datetime | None
    finished_at: datetime | None
    age_s: float | None
    next_run_at: datetime | None
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
    parts: tuple[PartLine, ...]


class ServiceLine(ResponseModel):
    """A process of ``broker serve``."""

    holder: str
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    alive: bool
    agents: tuple[str, ...]
    overdue: tuple[str, ...]
    failing: dict[str, int]
    tuning: int | None


class SourceLine(ResponseModel):
    """A source in the last snapshot of any brokerage: its state and age."""

    source: str
    state: str
    age_s: float | None
    limit_s: float | None
    rows: int | None


class ServiceAnswer(ResponseModel):
    """The status of agents, processes and sources."""

    now: datetime
    agents: tuple[AgentLine, ...]
    services: tuple[ServiceLine, ...]
    sources: tuple[SourceLine, ...]


AlarmCode = Literal[
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


class Alarm(ResponseModel):
    """A condition that needs attention: ``value`` is beyond ``limit``, which ``key`` sets.

    Attributes:
        about: the source, agent, task or queue.
        since: start of the condition; null if unknown.
        details: further figures.
        acknowledged: acknowledgement of the alarm; null if there is none.
    """

    code: AlarmCode
    severity: Literal["critical", "warning", "info"]
    about: str
    value: Figure
    limit: Figure
    unit: str
    key: str
    since: datetime | None = None
    details: dict[str, Figure] = Field(default_factory=dict)
    acknowledged: Acknowledgement | None = None


class Alarms(ResponseModel):
    """All alarms, most severe first, followed by acknowledged ones."""

    now: datetime
    alarms: tuple[Alarm, ...]


class RuleInForce(ResponseModel):
    """A rule of a brokerage, in order of evaluation."""

    position: int
    rule: str
    code: str
    list: str
    kind: str | None
    on_missing_data: str | None
    title: str
    keys: tuple[str, ...]
    sources: tuple[str, ...]
    provenance: str
    rejections_24h: int
    decides_24h: int


class Rules(ResponseModel):
    """The rules of a brokerage."""

    now: datetime
    brokerage: str
    rules: tuple[RuleInForce, ...]
