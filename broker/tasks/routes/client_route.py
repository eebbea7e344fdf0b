"""Routes that panda-client calls: PanDA's form of answers, and refusals that it shows to its user.

Every answer is ``success``, ``message`` and ``data``, with status 200. The client shows its user little more of a 4xx
than the number, so a problem that the user can solve is an answer, too. As everywhere else, the status says whether
the caller is let in, and whether there is an answer at all. Source: panda-client 2.2.0,
``Client.http_request_decorator``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from broker.access.policies import Identity
from broker.api.guarded_route import V1, GuardedRoute
from broker.api.plain import plain
from broker.api.problems import Problem
from broker.redaction import redact

_ANSWERED = (400, 404, 409, 422)
"""Problems with the request itself, not with who sends it or whether there is an answer now."""
SAME_NAME, NOT_FOUND, NOT_OWNER, WRONG_STATUS, SERVER, BAD_ARGUMENT = 2, 2, 3, 4, 4, 101
_CODES = {
    "same_name": SAME_NAME,
    "not_found": NOT_FOUND,
    "not_yours": NOT_OWNER,
    "wrong_state": WRONG_STATUS,
    "invalid_request": BAD_ARGUMENT,
    "bad_json": BAD_ARGUMENT,
}
"""PanDA's codes by ours; any other problem has the code of a refusal by the server."""


class ClientAnswer(BaseModel):
    """The common form of all answers.

    Attributes:
        success: whether the request was carried out.
        message: message for the user.
        data: requested data; PanDA's code for a refusal.
    """

    success: bool
    message: str = ""
    data: Any = None


class ClientRoute(GuardedRoute):
    """A guarded route whose refusals are answers."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            response = await inner(request)
            problem = getattr(request.state, "problem", None)
            return response if problem is None or not _is_answer(problem) else refused(problem)

        return handle


def _is_answer(problem: Problem) -> bool:
    return problem.status in _ANSWERED or problem.code in _CODES


def client_router() -> APIRouter:
    """A router for calls of panda-client below ``/api/v1``."""
    return APIRouter(prefix=V1, tags=["panda-client"], route_class=ClientRoute)


def success_answer(data: Any = None, message: str = "") -> Response:
    """The answer that something was done."""
    return _answer(True, message, data)


def refused(problem: Problem) -> Response:
    """The answer that something was not done, with what to do."""
    message = "; ".join(part for part in (problem.detail, problem.remedy) if part)
    return _answer(False, redact(message) or problem.code, _CODES.get(problem.code, SERVER))


def _answer(success: bool, message: str, data: Any) -> Response:
    return JSONResponse(plain(ClientAnswer(success=success, message=message, data=data)))


def own_name(who: Identity | None) -> str:
    """The name under which a user's tasks and archives are kept.

    Raises:
        TypeError: a policy let somebody in without a token.
    """
    if who is None:
        raise TypeError("the policy lets nobody in without a token")
    return who.username or who.subject
