"""Notifications over HTTP: channels, rules and messages, and subscriptions to tasks."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from broker.access.policies import ACT_ON_TASKS, READ_NAMES, Identity, Role
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.state import At, Moment, State, TaskId, Who, editor, query_context
from broker.notifications.answers import channels, messages, streams, subscriptions
from broker.notifications.answers.channels import Notifying
from broker.notifications.answers.messages import MessageFilters, MessageList, State as MessageState
from broker.notifications.answers.streams import StreamList
from broker.notifications.answers.subscriptions import Subscriber, TaskSubscriptions

router = guarded_router(tag="notifications")
LARGEST = 2**63 - 1
LONGEST_TO = 254


class WhereToTell(BaseModel):
    """The address or channel to subscribe."""

    model_config = ConfigDict(extra="forbid")
    to: Annotated[
        str,
        Field(min_length=1, max_length=LONGEST_TO, pattern=r"^[^\x00]*$", description="A mail address or a channel."),
    ]


@router.get("/notifications/channels", response_model=Notifying)
@allow(READ_NAMES)
def list_channels(request: Request, api: State) -> Response:
    """List channels and rules in force, without secrets."""
    return answer(request, channels.notifying(api.folder))


@router.get("/notifications", response_model=MessageList)
@allow(READ_NAMES)
def list_notifications(
    request: Request,
    api: State,
    since: Annotated[
        Moment | None, Query(description="Only messages planned since then; default: 90 days ago.")
    ] = None,
    state: Annotated[MessageState | None, Query(description="Only this state.")] = None,
    channel: Annotated[str | None, Query(max_length=64, description="Only this channel.")] = None,
    before: Annotated[int | None, Query(ge=1, le=LARGEST, description="`next_before` of the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="Maximum number of messages.")] = 100,
    at: At = None,
) -> Response:
    """List messages about incidents and their delivery, newest first."""
    filters = MessageFilters(since=since, state=state, channel=channel, before=before, limit=limit)
    with query_context(api, at) as query:
        matches = messages.message_list(query, filters)
    return answer(request, matches, items="messages")


@router.get("/notifications/decisions", response_model=StreamList)
@allow(READ_NAMES)
def list_decision_streams(request: Request, api: State, at: At = None) -> Response:
    """List the channels that publish decisions: progress, backlog, and why the last attempt failed."""
    with query_context(api, at) as query:
        decision_streams = streams.stream_list(query)
    return answer(request, decision_streams, items="streams")


@router.get("/tasks/{task}/subscriptions", response_model=TaskSubscriptions)
@allow(READ_NAMES)
def list_subscriptions(request: Request, api: State, task: TaskId) -> Response:
    """List the subscriptions to a task and what was sent."""
    with query_context(api) as query:
        content = subscriptions.subscriptions_of(query, task)
    return answer(request, content, items="subscriptions")


@router.post("/tasks/{task}:subscribe", response_model=TaskSubscriptions)
@allow(ACT_ON_TASKS)
def subscribe_to_task(request: Request, api: State, who: Who, task: TaskId, body: WhereToTell) -> Response:
    """Subscribe to a task: one message when its work waits too long, one when the task ends."""
    by = subscriber_of(who)
    return answer(request, subscriptions.subscribe(api.database, api.folder, task, body.to, by, api.now()))


@router.post("/tasks/{task}:unsubscribe", response_model=TaskSubscriptions)
@allow(ACT_ON_TASKS)
def unsubscribe_from_task(request: Request, api: State, who: Who, task: TaskId, body: WhereToTell) -> Response:
    """End the caller's subscription to a task."""
    by = subscriber_of(who)
    return answer(request, subscriptions.unsubscribe(api.database, api.folder, task, body.to, by, api.now()))


def subscriber_of(who: Identity | None) -> Subscriber:
    """Return the subscriber behind a request."""
    may_all = who is not None and who.has(Role.OPERATOR)
    return Subscriber(editor(who), None if who is None else who.username, may_all)
