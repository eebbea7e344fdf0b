"""The form on the page of a task for subscribing to its states."""

from __future__ import annotations

from fastapi import Response

from broker.access.policies import ACT_ON_TASKS
from broker.api.guarded_route import allow
from broker.api.problems import Problem
from broker.api.state import State, TaskId, Who
from broker.notifications.answers import subscriptions
from broker.notifications.routes.notifications import LONGEST_TO, subscriber_of
from broker.web.rendering import Form, back_to, page_router

router = page_router(tag="notifications")


@router.post("/tasks/{jeditaskid}/subscribe")
@allow(ACT_ON_TASKS)
def subscribe(api: State, who: Who, jeditaskid: TaskId, fields: Form) -> Response:
    """Subscribe to a task: one message when its work waits too long, one when the task ends."""
    subscriptions.subscribe(api.database, api.folder, jeditaskid, _to(fields), subscriber_of(who), api.now())
    return back_to(f"/tasks/{jeditaskid}#subscriptions")


@router.post("/tasks/{jeditaskid}/unsubscribe")
@allow(ACT_ON_TASKS)
def unsubscribe(api: State, who: Who, jeditaskid: TaskId, fields: Form) -> Response:
    """End the caller's subscription to a task, and show the page of the task again."""
    subscriptions.unsubscribe(api.database, api.folder, jeditaskid, _to(fields), subscriber_of(who), api.now())
    return back_to(f"/tasks/{jeditaskid}#subscriptions")


def _to(fields: dict[str, str]) -> str:
    to = fields.get("to", "").strip()
    if not to or len(to) > LONGEST_TO or "\0" in to:
        raise Problem(422, "invalid_request", "a mail address or a channel is needed", "say who is to be told")
    return to
