"""The HTTP API about a user: tasks, what throttles them, quota."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response
from starlette.requests import Request

from broker.access.policies import READ_NAMES
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer, from_path
from broker.api.state import At, State, query_context
from broker.history.answers.list_models import UserAnswer
from broker.history.answers.user import user_answer

router = guarded_router(tag="grid")
InPath = Annotated[str, Path(min_length=1, max_length=200)]


@router.get("/users/{user}", response_model=UserAnswer)
@allow(READ_NAMES)
def get_user(request: Request, api: State, user: InPath, at: At = None) -> Response:
    """Get a user: tasks, throttles, quota. In the path, write ``/`` and control characters as ``~2f`` and ``~1b``."""
    with query_context(api, at) as query:
        details = user_answer(query, from_path(user))
    return answer(request, details)
