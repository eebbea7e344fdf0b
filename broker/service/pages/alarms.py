"""The page of alarms: folded by kind, gravest first, with a form to acknowledge them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from fastapi import Response
from pydantic import BaseModel
from starlette.requests import Request

from broker.access.policies import OPERATE, READ
from broker.api.guarded_route import allow
from broker.api.problems import Problem
from broker.api.state import State, Who, editor, query_context
from broker.service.answers import acknowledging
from broker.service.answers.alarm_sentences import AlarmLine, alarm_kinds, alarm_sentence
from broker.service.answers.alarms import alarms
from broker.service.answers.models import Alarm, Alarms
from broker.store.service import acknowledged_alarms
from broker.store.service.acknowledged_alarms import Acknowledgement
from broker.web.rendering import Form, back_to, page_router, show

router = page_router(tag="alarms")
MOST_OF_A_KIND = 100
PAGES = {
    **dict.fromkeys(("task_starving", "task_flapping"), "/tasks"),
    **dict.fromkeys(("queue_failing", "queue_closed", "nodes_held"), "/queues"),
}
"""Address of the page for the subject of an alarm."""


class AlarmsPage(BaseModel):
    """The alarms, and who looked at which, the newest first."""

    alarms: Alarms
    acknowledgements: list[Acknowledgement]


@router.get("/alarms")
@allow(READ)
def list_alarms(request: Request, api: State) -> Response:
    """What is wrong now, by kind, and who looks at it."""
    with query_context(api) as query:
        content = AlarmsPage(alarms=alarms(query), acknowledgements=acknowledged_alarms.history(query.connection))
    kinds = alarm_kinds(content.alarms.alarms)
    return show(
        request,
        "service/alarms",
        {"alarms": content.alarms, "acknowledgements": content.acknowledgements},
        title="Alarms",
        listed=content.alarms.alarms,
        sentence=alarms_sentence(kinds),
        kinds=[_shown(kind) for kind in kinds],
    )


def alarms_sentence(kinds: list[AlarmLine]) -> str:
    """Describe how many alarms there are, and how many nobody is looking at yet. Pure."""
    total = sum(len(kind.alarms) for kind in kinds)
    if not total:
        return "Nothing is stale, overdue, starving or failing."
    alone = sum(len(kind.alarms) for kind in kinds if not kind.looked_at)
    graver = sum(len(kind.alarms) for kind in kinds if kind.severity == "critical" and not kind.looked_at)
    return (
        f"{total:,} {'alarm' if total == 1 else 'alarms'}; nobody looks yet at {alone:,}, of which {graver:,} critical."
    )


def _shown(kind: AlarmLine) -> dict[str, Any]:
    first = kind.alarms[0]
    return {
        "code": kind.code,
        "words": kind.code.replace("_", " "),
        "severity": kind.severity,
        "count": len(kind.alarms),
        "sentence": alarm_sentence(first),
        "since": kind.since,
        "key": kind.key,
        "looked_at": first.acknowledged,
        "about": first.about,
        "alarms": [_alarm_fields(alarm) for alarm in kind.alarms[:MOST_OF_A_KIND]],
        "more": max(0, len(kind.alarms) - MOST_OF_A_KIND),
    }


def _alarm_fields(alarm: Alarm) -> dict[str, Any]:
    return {
        "about": alarm.about,
        "address": PAGES.get(alarm.code, ""),
        "sentence": alarm_sentence(alarm),
        "since": alarm.since,
    }


@router.post("/alarms/{code}")
@allow(OPERATE)
def acknowledge(request: Request, api: State, who: Who, code: str, fields: Form) -> Response:
    """Say that somebody looks at all alarms of a kind, or take that back."""
    about = fields.get("about") or None
    if "back" in fields:
        with api.database.begin() as connection:
            acknowledging.take_back(connection, code, about, editor=editor(who))
        return back_to("/alarms")
    with query_context(api) as query:
        current_alarms = alarms(query).alarms
    with api.database.begin() as connection:
        acknowledging.acknowledge(
            connection, current_alarms, code, about, _span(fields), reason=fields.get("reason", ""), editor=editor(who)
        )
    return back_to("/alarms")


def _span(fields: dict[str, str]) -> timedelta:
    try:
        return timedelta(hours=float(fields.get("hours", "")))
    except (ValueError, OverflowError):
        raise Problem(422, "invalid_request", "the hours must be a number") from None
