"""A route of the page: it has a policy, its forms count with the token of their session, its refusals are pages."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from broker.api.guarded_route import GuardedRoute, refusal
from broker.api.problems import Problem
from broker.web.rendering import html, wants_json
from broker.web.sessions import SAFE, Session, is_token_of

FORM = "application/x-www-form-urlencoded"
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class PageRoute(GuardedRoute):
    """A route of which every answer is a page, or JSON for those who ask for it."""

    def get_route_handler(self) -> Handler:
        """The handler: what is refused is a page that says why."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            response = await inner(request)
            problem = getattr(request.state, "problem", None)
            if problem is None or wants_json(request):
                return response
            return problem_page(request, problem, response)

        return handle


def page_router(*, tag: str) -> APIRouter:
    """A router of pages, which the description of the API leaves to themselves."""
    return APIRouter(tags=[tag], route_class=PageRoute, include_in_schema=False)


def problem_page(request: Request, problem: Problem, response: Response) -> Response:
    """What was refused, why, and what to do."""
    context = {
        "title": "Log in" if problem.status == 401 else f"{problem.status}: {problem.code.replace('_', ' ')}",
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
        "remedy": problem.remedy,
        "request_id": getattr(request.state, "request_id", ""),
    }
    page = html(request, "problem", context, problem.status)
    for name, value in problem.headers.items():
        page.headers[name] = value
    return page


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form that one of our own pages sent.

    Raises:
        Problem: it is no form, or comes from elsewhere.
    """
    fields = await sent_fields(request)
    session = getattr(request.state, "session", None)
    if not isinstance(session, Session) or not is_token_of(session, fields.pop("csrf", "")):
        raise Problem(403, "form_from_elsewhere", "the form is none of this session", "open the page again")
    return fields


async def sent_fields(request: Request) -> dict[str, str]:
    """The fields of a form, whoever sent it.

    Raises:
        Problem: it is no form.
    """
    if request.method in SAFE:
        raise TypeError("a form is sent with POST")
    if not request.headers.get("content-type", "").startswith(FORM):
        raise Problem(415, "no_form", "a form of the page was expected")
    body = (await request.body()).decode("utf-8", "replace")
    return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=100))


Form = Annotated[dict[str, str], Depends(form_of)]
"""The fields of the form that a request holds, once its token is found good."""


def back_to(address: str) -> Response:
    """Send the browser on, after a form was taken."""
    return RedirectResponse(address, status_code=303)


def no_page(request: Request, error: Exception) -> Response:
    """The answer to a request for an address that nothing has."""
    response = refusal(request, error)
    browses = "text/html" in request.headers.get("accept", "")
    if wants_json(request) or request.url.path.startswith("/api/") or not browses:
        return response
    status = error.status_code if isinstance(error, HTTPException) else 500
    return problem_page(request, Problem(status, "no_such_page", "there is nothing at this address"), response)
