"""Answers about tasks, from the description of the API; `make reference` writes this file."""

from __future__ import annotations

from typing import Any, TypedDict

from gridbroker_client.answers.decisions import TaskFacts, Throttle


class TaskList(TypedDict):
    """Tasks, longest waiting first, then those that do not wait. ``total`` match; ``tasks`` are returned."""

    now: str
    filters: TaskFilters
    total: int
    tasks: list[TaskLine]
    next_after: int | None


class History(TypedDict):
    """The history of a task, oldest first."""

    now: str
    jeditaskid: int
    events: list[HistoryEvent]


class TaskSubscriptions(TypedDict):
    """All subscriptions to a task, oldest first."""

    jeditaskid: int
    subscriptions: list[SubscriptionLine]


class MessageList(TypedDict):
    """Messages, newest first."""

    now: str
    messages: list[MessageLine]
    next_before: int | None


class TaskFilters(TypedDict):
    """Filters of tasks; all must match. Names of queues and nuclei are case-insensitive."""

    user: str | None
    status: str | None
    reason: str | None
    queue: str | None
    nucleus: str | None
    gshare: str | None
    since: str | None
    limit: int
    after: int | None


class TaskLine(TypedDict):
    """A task with the last decision of the brokerages."""

    task: TaskFacts
    brokerage: str | None
    outcome: str | None
    reason: str | None
    main_code: str | None
    chunks: int
    chunks_waiting: int
    jobs: int
    queues: list[str]
    times_seen: int
    decided_at: str | None
    throttle: Throttle | None


class HistoryEvent(TypedDict):
    """An event of the task or its surroundings."""

    at: str
    until: str | None
    event: str
    about: dict[str, Any]


class SubscriptionLine(TypedDict):
    """A subscription to a task."""

    jeditaskid: int
    to: str
    subscribed_at: str
    subscribed_by: str
    told_waits_at: str | None
    ended_at: str | None
    ended_because: str | None


class MessageLine(TypedDict):
    """A message about an incident."""

    message: int
    incident: str
    event: str
    kind: str
    code: str
    about: str
    severity: str
    sentence: str
    channel: str
    address: str | None
    rule: str
    state: str
    tries: int
    planned_at: str
    not_before: str
    ended_at: str | None
    detail: str | None
