"""Which tasks panda-client asks for, and in which of its groups of states a task is. Pure.

Source: panda-client 2.2.0, ``PBookCore._query_task_dicts``, ``localSpecs``; panda-server, ``api/v1/task_api.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from broker.domain.instants import naive
from broker.errors import WRONG_USAGE, BrokerError
from broker.tasks.model.verbs import ENDED, STATES

MOST_TASKS = 10_000
MOST_NUMBER = 2**63 - 1
_COLUMNS: Mapping[str, str] = {
    "jediTaskID": "jeditaskid",
    "reqID": "reqid",
    "taskName": "taskname",
    "status": "status",
    "superStatus": "superstatus",
    "userName": "username",
}
_NUMBERS = ("jediTaskID", "reqID")
_SUPER_STATUS: Mapping[str, str] = {
    "registered": "registered",
    "defined": "registered",
    "assigning": "submitting",
    "ready": "ready",
    **{status: status for status in ENDED},
}


class BadFilter(BrokerError):
    """The filter of tasks cannot be read."""

    exit_status = WRONG_USAGE
    http_status = 422


@dataclass(frozen=True)
class TaskFilter:
    """The requested tasks; None: no condition.

    Attributes:
        user: the owner.
        since: naive UTC; modified then or later.
        most: at most this many, the newest first.
    """

    user: str
    most: int
    since: datetime | None = None
    jeditaskid: int | None = None
    reqid: int | None = None
    taskname: str | None = None
    statuses: tuple[str, ...] | None = None


def super_status(status: str) -> str:
    """The group of states that ``pbook`` asks for: running, submitting, registered, ready, or how it ended.

    >>> super_status("scouting"), super_status("done")
    ('running', 'done')
    """
    return _SUPER_STATUS.get(status, "running")


def read_filter(own_name: str, since: str | None, filters: str | None, most: int) -> TaskFilter:
    """The tasks that a call requests.

    Args:
        own_name: the caller, and the owner of the tasks unless ``userName`` names somebody else.
        since: ``YYYY-MM-DD HH:MM:SS`` in UTC.
        filters: JSON object of texts, such as ``{"jediTaskID": "42"}``.
        most: the maximum number of tasks.

    Raises:
        BadFilter: one of them cannot be read.
    """
    if not 1 <= most <= MOST_TASKS:
        raise BadFilter(f"n_tasks is {most}", "n_tasks", f"write a number from 1 to {MOST_TASKS}")
    values = _read_values(filters)
    return TaskFilter(
        values.get("userName", own_name),
        most,
        _instant(since),
        _number("jediTaskID", values),
        _number("reqID", values),
        values.get("taskName"),
        _statuses(values),
    )


def _read_values(filters: str | None) -> dict[str, str]:
    try:
        values = json.loads(filters) if filters else {}
    except (ValueError, RecursionError) as error:
        raise BadFilter("filters is no JSON", "filters", 'write {"jediTaskID": "42"}') from error
    if not isinstance(values, dict):
        raise BadFilter("filters is no JSON object", "filters", 'write {"jediTaskID": "42"}')
    for name, value in values.items():
        if name not in _COLUMNS:
            raise BadFilter(f"no filter {name[:80]!r} is known", "filters", f"known are {', '.join(_COLUMNS)}")
        if not isinstance(value, str | int) or isinstance(value, bool) or "\0" in str(value):
            raise BadFilter(f"{name} is no text and no number", "filters", f'write {{"{name}": "..."}}')
    return {name: str(value) for name, value in values.items()}


def _number(name: str, values: Mapping[str, str]) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= MOST_NUMBER):
        raise BadFilter(f"{name} is {text[:40]!r}", "filters", "write a whole number; of several ask one by one")
    return int(text)


def _statuses(values: Mapping[str, str]) -> tuple[str, ...] | None:
    """The states that ``status`` and ``superStatus`` select; None if neither is given."""
    if "status" not in values and "superStatus" not in values:
        return None
    states: tuple[str, ...] = STATES if "status" not in values else (values["status"],)
    if "superStatus" in values:
        states = tuple(state for state in states if super_status(state) == values["superStatus"])
    return states


def _instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadFilter(f"since is {text[:40]!r}", "since", "write YYYY-MM-DD HH:MM:SS, in UTC") from error
    return naive(instant)


def percent(part: Any, whole: Any) -> int:
    """``part`` of ``whole`` in whole percent, never 100 before it is all; 0 if ``whole`` is none.

    >>> percent(999, 1000), percent(0, 0)
    (99, 0)
    """
    return 100 * int(part or 0) // int(whole) if whole else 0
