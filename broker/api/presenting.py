"""Answers as bytes: chosen fields, names of users for those who may see them, ETag, JSON or NDJSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from broker.access.names import hidden
from broker.api.pages import Page
from broker.api.plain import plain
from broker.api.problems import FieldProblem, Problem

OF_THE_MOMENT = frozenset({"now", "compared_with"})
"""Fields that hold the instant of the question: another one makes it no other answer."""
JSON, NDJSON = "application/json", "application/x-ndjson"
LONGEST_FIELDS = 1000


def answer(
    request: Request,
    content: BaseModel | Mapping[str, Any],
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    items: str | None = None,
) -> Response:
    """One answer; ``304 Not Modified`` where the client has it already.

    ``?fields=a,b.c`` chooses fields: of the object, or of each item of a page. Somebody without a token gets
    ``***`` where there is a name of a user. ``Accept: application/x-ndjson`` gets the items of a list one a line.

    Args:
        request: that is answered.
        content: the answer.
        status: of HTTP.
        headers: further ones.
        items: the field that holds a list, where the answer is one; of a page it is known.

    Raises:
        Problem: a field is chosen that is not there.
    """
    document = plain(content)
    if request.state.identity is None:
        document = hidden(document)
    listed = "items" if isinstance(content, Page) else items
    wanted = request.query_params.get("fields")
    if wanted:
        document = _chosen(document, wanted, listed)
    given = dict(headers or {})
    if listed is not None and NDJSON in request.headers.get("accept", ""):
        following = document.get("next") or document.get("next_after")
        given |= {} if following is None else {"X-Next": str(following)}
        return Response(b"".join(lines(document[listed])), status, given, NDJSON)
    return tagged(request, Response(as_json(document), status, given, JSON), tag_of(document))


def tag_of(document: Any) -> str:
    """The weak ``ETag`` of an answer (RFC 9110, section 8.8.3): without the instant for which it was made.

    Of a page it is that of its answers, each without its own.
    """
    kept = _timeless(document)
    if isinstance(kept, dict):
        kept = {name: _timeless(value) for name, value in kept.items()}
    return f'W/"{hashlib.blake2b(as_json(kept), digest_size=12).hexdigest()}"'


def _timeless(document: Any) -> Any:
    if not isinstance(document, dict) or OF_THE_MOMENT.isdisjoint(document):
        return document
    moment = OF_THE_MOMENT
    if document.get("counted_at") == document.get("now"):
        moment = moment | {"counted_at"}  # it was counted for the question
    return {name: value for name, value in document.items() if name not in moment}


def as_json(document: Any) -> bytes:
    """A plain document as JSON, without blanks."""
    return json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()


def stream(request: Request, items: Iterable[BaseModel | Mapping[str, Any]]) -> Response:
    """A long answer: one object a line, as they come."""
    show = hidden if request.state.identity is None else (lambda document: document)
    return StreamingResponse(lines(show(plain(one)) for one in items), media_type=NDJSON)


def lines(documents: Iterable[Any]) -> Iterator[bytes]:
    """Each document as a line of JSON."""
    for one in documents:
        yield as_json(one) + b"\n"


def tagged(request: Request, response: Response, tag: str) -> Response:
    """An answer with its ``ETag``; without a body where the client has it already.

    Args:
        request: that is answered.
        response: the answer.
        tag: of what it says.
    """
    if request.method not in ("GET", "HEAD") or response.status_code != 200:
        return response
    response.headers.setdefault("ETag", tag)
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["Vary"] = "Accept, Authorization, Cookie"
    held = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    if response.headers["ETag"].removeprefix("W/") in held or "*" in held:
        kept = {name: response.headers[name] for name in ("ETag", "Cache-Control", "Vary")}
        return Response(status_code=304, headers=kept)
    return response


def _chosen(document: Any, wanted: str, listed: str | None) -> Any:
    names = [name for name in wanted[:LONGEST_FIELDS].split(",") if name]
    if listed is not None:
        return {**document, listed: [_fields(one, names) for one in document[listed]]}
    return _fields(document, names)


def _fields(document: Any, names: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        here, there = document, found
        parts = name.split(".")
        for position, part in enumerate(parts):
            if not isinstance(here, dict) or part not in here:
                problem = FieldProblem(where="query.fields", what=f"there is no field {name[:100]}")
                raise Problem(400, "unknown_field", f"there is no field {name[:100]}", errors=[problem])
            here = here[part]
            if position < len(parts) - 1:
                there = there.setdefault(part, {})
            else:
                there[part] = here
    return found
