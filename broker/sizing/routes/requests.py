"""The requests of a task over HTTP."""

from __future__ import annotations

from fastapi import Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.state import At, State, TaskId, query_context
from broker.sizing.answers.requests import TaskRequests, task_requests

router = guarded_router(tag="tasks")


@router.get("/tasks/{task}/requests", response_model=TaskRequests)
@allow(READ)
def get_requests(request: Request, api: State, task: TaskId, at: At = None) -> Response:
    """Get the requests of a task: memory, time, disk; the origin of each value, and what its jobs used."""
    with query_context(api, at) as query:
        requests = task_requests(query, task)
    return answer(request, requests)
