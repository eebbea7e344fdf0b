"""Renders answers as pages: an address returns HTML to browsers, and JSON to clients that request it.

A page's route has a policy, its forms are accepted with the token of their session, and its refusals are pages.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends
from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from broker import __version__
from broker.access.names import hidden
from broker.access.policies import Identity
from broker.api.guarded_route import GuardedRoute, refusal
from broker.api.plain import plain
from broker.api.presenting import answer
from broker.api.problems import Problem
from broker.api.state import identity_of, state_of
from broker.errors import BrokerError
from broker.feature import template_packages
from broker.web.csv_lists import csv_response
from broker.web.formats import FILTERS, visible
from broker.web.pictures.bars import meter
from broker.web.plain_fields import PlainFields
from broker.web.sessions import SAFE, Session, is_token_of
from broker.web.tables import table

JSON_TYPES = ("application/json", "application/x-ndjson")
_STATIC = ("style.css", "live.js", "tables.js", "columns.js", "times.js", "search.js", "plots.js", "bokeh.min.js")
_OF_BOKEH = ("bokeh.min.js",)
MENU: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Overview",
        (
            ("/", "Now"),
            ("/alarms", "Alarms"),
            ("/compare", "Two times"),
            ("/service", "Service"),
            ("/glossary", "Glossary"),
            ("/docs", "API"),
        ),
    ),
    (
        "Work",
        (
            ("/tasks", "Tasks"),
            ("/jobs", "Jobs"),
            ("/reasons", "Reasons"),
            ("/quality", "Quality"),
            ("/users", "Users"),
            ("/retries", "Retries"),
            ("/forecasts", "Forecasts"),
        ),
    ),
    (
        "Grid",
        (
            ("/queues", "Queues"),
            ("/nuclei", "Nuclei"),
            ("/links", "Links"),
            ("/shares", "Shares"),
            ("/map", "Map"),
            ("/pools", "Pools"),
            ("/match", "Jobs and nodes"),
            ("/sources", "Sources"),
        ),
    ),
    (
        "Tuning",
        (("/tuning", "Values"), ("/canaries", "Canaries"), ("/rules", "Rules"), ("/pins", "Pins")),
    ),
    ("Lab", (("/simulations", "Simulations"), ("/runs", "Runs"), ("/shadow", "Beside PanDA"))),
)
"""Groups of pages; a group links to its first page."""

A = TypeVar("A", bound=BaseModel)
Answers = Mapping[str, Any]


@cache
def environment() -> Environment:
    """Return the template environment, with autoescaping.

    A name such as ``base.html`` is a template of the frame, ``pools/pool.html`` one of the feature ``pools``.
    """
    of_features = {feature: PackageLoader(package) for feature, package in template_packages().items()}
    templates = Environment(
        loader=ChoiceLoader([PackageLoader("broker.web"), PrefixLoader(of_features)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )
    templates.filters.update(FILTERS, table=table, meter=meter)
    return templates


def _finalized(value: Any) -> Any:
    """Finalize a template expression: markup stays as it is, other text gets its invisible characters made visible."""
    return visible(value) if type(value) is str else value


@cache
def static_file(name: str) -> bytes:
    """Return a file that pages load: ours, or one of the installed Bokeh package.

    Raises:
        BrokerError: Bokeh is not installed.
    """
    return (_bokeh_folder() if name in _OF_BOKEH else Path(__file__).parent / "static").joinpath(name).read_bytes()


def _bokeh_folder() -> Path:
    """Return the folder of Bokeh's browser files without importing Bokeh, which takes a second."""
    spec = find_spec("bokeh")
    if spec is None or spec.origin is None:
        raise BrokerError("Bokeh is not installed", "the web page", "pip install 'gridbroker[web]'")
    return Path(spec.origin).parent / "server" / "static" / "js"


@cache
def static_paths() -> dict[str, str]:
    """Return the address of each file; the digest in it makes the file cacheable for ever."""
    return {name: f"/static/{_digest(name)}/{name}" for name in _STATIC}


def _digest(name: str) -> str:
    return hashlib.blake2b(static_file(name), digest_size=8).hexdigest()


def wants_json(request: Request) -> bool:
    """Return whether a request asks for JSON."""
    if request.query_params.get("format") in ("json", "ndjson"):
        return True
    accepted = request.headers.get("accept", "")
    return "text/html" not in accepted and any(media_type in accepted for media_type in JSON_TYPES)


def show(
    request: Request,
    template: str,
    answers: BaseModel | Answers,
    *,
    title: str,
    items: str | None = None,
    status: int = 200,
    listed: Sequence[BaseModel] | None = None,
    **shown: Any,
) -> Response:
    """Return a page, or its answers as JSON, or its list as CSV.

    Args:
        request: the request to answer.
        template: ``FEATURE/NAME`` for ``NAME.html`` in the feature's templates, ``NAME`` for one of the frame; a single
            answer is available in it as ``answer``, several by their names.
        answers: one answer, which JSON shows as the API does, or several by name.
        title: title of the page.
        items: the list field of the answer, for NDJSON.
        status: HTTP status.
        listed: the list of the page, if it is not the field ``items`` of a single answer.
        shown: additional content of the page: sentences, functions that draw pictures, choices.
    """
    identity = identity_of(request)
    if listed is None and items is not None and isinstance(answers, BaseModel):
        listed = getattr(answers, items)
    if listed is not None and request.query_params.get("format") == "csv":
        document = plain({"rows": list(listed)})
        return csv_response((document if identity is not None else hidden(document))["rows"], title)
    if wants_json(request):
        return answer(request, answers, items=items, status=status)
    context: dict[str, Any] = {"answer": answers} if isinstance(answers, BaseModel) else dict(answers)
    data: dict[str, Any] = {"tools": {name: _address_with(request, name) for name in ("csv", "json")} if listed else {}}
    further: dict[str, Any] = {}
    for name, value in {**context, **shown, "title": title}.items():
        (further if callable(value) else data)[name] = value
    if identity is None:
        document = hidden(plain(data))
    else:
        document = {
            name: PlainFields(value) if isinstance(value, BaseModel) else plain(value) for name, value in data.items()
        }
    return html(request, template, {**document, **further}, status)


def _address_with(request: Request, name: str) -> str:
    """Return the address of this page in another format."""
    return str(request.url.include_query_params(format=name).replace(scheme="", netloc=""))


def for_reader(request: Request, model: A) -> A:
    """Return the answer as this reader may see it in pictures: without user names unless logged in."""
    return model if identity_of(request) is not None else type(model).model_validate(hidden(plain(model)))


def html(request: Request, template: str, context: Mapping[str, Any], status: int = 200) -> Response:
    """Return an HTML response with the headers that all pages have."""
    nonce = secrets.token_urlsafe(16)
    identity = getattr(request.state, "identity", None)
    text = (
        environment()
        .get_template(f"{template}.html")
        .render(
            **context,
            **_frame(request, identity, nonce),
        )
    )
    response = Response(text.encode(), status, media_type="text/html; charset=utf-8")
    response.headers.update(security_headers(nonce))
    response.headers["Cache-Control"] = "private, no-store"
    response.headers["Vary"] = "Accept, Authorization, Cookie"
    return response


def security_headers(nonce: str) -> dict[str, str]:
    """Return what the browser may do with a page: nothing from elsewhere, nothing written into it, no frame around it.

    Plots have their styles in elements that our own script creates with the nonce.
    """
    policy = (
        "default-src 'none'; script-src 'nonce-{0}'; style-src 'self' 'nonce-{0}'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy.format(nonce),
        # with "no-referrer" browsers send forms with the origin "null", as if from elsewhere
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "X-Frame-Options": "DENY",
    }


def menu_at(path: str) -> list[dict[str, Any]]:
    """Return the groups of the menu with their pages, marking those that the page at ``path`` belongs to."""

    def is_here(where: str) -> bool:
        return path == where or (where != "/" and path.startswith((f"{where}/", f"{where}:")))

    groups = []
    for name, pages in MENU:
        entries = [(where, title, is_here(where)) for where, title in pages]
        here = any(here for _, _, here in entries)
        groups.append({"name": name, "address": pages[0][0], "here": here, "pages": entries})
    return groups


def _frame(request: Request, identity: Identity | None, nonce: str) -> dict[str, Any]:
    session = getattr(request.state, "session", None)
    path = request.url.path
    return {
        "menu": menu_at(path),
        "nonce": nonce,
        "static": static_paths(),
        "version": __version__,
        "who": None if identity is None else identity.username or identity.subject,
        "roles": [] if identity is None else [str(role) for role in identity.grants],
        "csrf": None if session is None else session.csrf,
        "json_address": _address_with(request, "json"),
        "bigpanda": state_of(request).configuration.web.bigpanda,
    }


FORM = "application/x-www-form-urlencoded"
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class PageRoute(GuardedRoute):
    """A route whose every answer is a page, or JSON for clients that request it.

    ``sort`` is the column by which a table is sorted, ``columns`` those shown: the browser does both.
    """

    also = frozenset({"sort", "columns"})

    def get_route_handler(self) -> Handler:
        """Return the handler, which turns a refusal into a page that says why."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            response = await inner(request)
            problem = getattr(request.state, "problem", None)
            if problem is None or wants_json(request):
                return response
            return problem_page(request, problem, response)

        return handle


def page_router(*, tag: str) -> APIRouter:
    """Return a router for pages, which OpenAPI's description leaves out."""
    return APIRouter(tags=[tag], route_class=PageRoute, include_in_schema=False)


def problem_page(request: Request, problem: Problem, response: Response) -> Response:
    """Return a page with what was refused, why, and what to do."""
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
    """Return the fields of a form sent by one of our own pages.

    Raises:
        Problem: the body is not a form, or comes from elsewhere.
    """
    fields = await sent_fields(request)
    session = getattr(request.state, "session", None)
    if not isinstance(session, Session) or not is_token_of(session, fields.pop("csrf", "")):
        raise Problem(403, "form_from_elsewhere", "the form is none of this session", "open the page again")
    return fields


async def sent_fields(request: Request) -> dict[str, str]:
    """Return the fields of a form, whoever sent it.

    Raises:
        Problem: the body is not a form.
    """
    if request.method in SAFE:
        raise TypeError("a form is sent with POST")
    if not request.headers.get("content-type", "").startswith(FORM):
        raise Problem(415, "no_form", "a form of the page was expected")
    body = (await request.body()).decode("utf-8", "replace")
    return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=100))


Form = Annotated[dict[str, str], Depends(form_of)]
"""Fields of the submitted form, once its token is verified."""


def back_to(address: str) -> Response:
    """Redirect the browser after a form was accepted."""
    return RedirectResponse(address, status_code=303)


def no_page(request: Request, error: Exception) -> Response:
    """Return the answer to a request for an unknown address."""
    response = refusal(request, error)
    browses = "text/html" in request.headers.get("accept", "")
    if wants_json(request) or request.url.path.startswith("/api/") or not browses:
        return response
    status = error.status_code if isinstance(error, HTTPException) else 500
    return problem_page(request, Problem(status, "no_such_page", "there is nothing at this address"), response)
