"""Presentation of answers: pages of lists, chosen fields, ETag, JSON or NDJSON, user names for those who may see them.

Pages: ``?after=CURSOR&limit=N``. A cursor is opaque: its content may change, its meaning does not.

A person's name in a path is a single segment: control characters, ``/`` and a backslash are written as ``~`` and two
hexadecimal digits for each byte of UTF-8, ``~`` itself as ``~7e``, and so are the dots of a name that consists of dots.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import quote

from fastapi import Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from broker.access.names import hidden
from broker.api.plain import as_json, plain
from broker.api.problems import FieldProblem, Problem

T = TypeVar("T")
LONGEST_CURSOR = 1000

After = Annotated[
    str | None,
    Query(max_length=LONGEST_CURSOR, description="Cursor `next` of the previous page; default: the first page."),
]
Limit = Annotated[int, Query(ge=1, le=500, description="Maximum number of items in the page.")]


class Page(BaseModel, Generic[T]):
    """A part of a list.

    Attributes:
        items: items in the order of the list.
        next: cursor of the next page; null at the end.
    """

    items: list[T]
    next: str | None = None


def cursor_of(key: Sequence[Any]) -> str:
    """Return the cursor after an item with this key."""
    return base64.urlsafe_b64encode(json.dumps(list(key), default=str).encode()).decode().rstrip("=")


def key_of(cursor: str | None, kinds: tuple[type, ...]) -> tuple[Any, ...] | None:
    """Return the key in a cursor; None without one.

    Args:
        cursor: the cursor sent by the client.
        kinds: type of each part of the key.

    Raises:
        Problem: the cursor is not one of ours.
    """
    if cursor is None:
        return None
    try:
        key = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise _bad_cursor() from None
    if not isinstance(key, list) or len(key) != len(kinds):
        raise _bad_cursor()
    if any(type(part) is not kind for part, kind in zip(key, kinds, strict=True)):
        raise _bad_cursor()
    if any(kind is int and not -(2**63) <= part < 2**63 for part, kind in zip(key, kinds, strict=True)):
        raise _bad_cursor()
    if any(kind is str and "\0" in part for part, kind in zip(key, kinds, strict=True)):
        raise _bad_cursor()
    return tuple(key)


def page_of(items: Sequence[T], limit: int, key: Callable[[T], Sequence[Any]]) -> Page[T]:
    """Return the page of ``items``, read with one more than ``limit`` to see whether another page follows."""
    shown_items = list(items[:limit])
    return Page(items=shown_items, next=cursor_of(key(shown_items[-1])) if len(items) > limit else None)


def slice_of(items: Sequence[T], after: str | None, limit: int) -> Page[T]:
    """Return a page of a list that is short enough to be built whole; the cursor counts items."""
    key = key_of(after, (int,))
    start = min(max(0 if key is None else key[0], 0), len(items))
    page = list(items[start : start + limit])
    end = start + len(page)
    return Page(items=page, next=cursor_of([end]) if end < len(items) else None)


def _bad_cursor() -> Problem:
    problem = FieldProblem(where="query.after", what="no cursor of this list")
    return Problem(400, "bad_cursor", "the cursor is none of this list", "begin without one", errors=[problem])


OF_THE_MOMENT = frozenset({"now", "compared_with"})
"""Fields that hold the instant of the request: a different instant does not make it a different answer."""
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
    """Return one answer, or ``304 Not Modified`` if the client already has it.

    ``?fields=a,b.c`` chooses fields: of the object, or of each item of a page. A client without a token gets ``***`` in
    place of user names. ``Accept: application/x-ndjson`` returns the items of a list one a line.

    Args:
        request: the request to answer.
        content: the answer.
        status: HTTP status.
        headers: additional headers.
        items: the field that holds a list, if the answer has one; that of a page is known.

    Raises:
        Problem: a chosen field does not exist.
    """
    document = plain(content)
    if request.state.identity is None:
        document = hidden(document)
    list_field = "items" if isinstance(content, Page) else items
    field_names = request.query_params.get("fields")
    if field_names:
        document = _chosen(document, field_names, list_field)
    all_headers = dict(headers or {})
    if list_field is not None and NDJSON in request.headers.get("accept", ""):
        following = document.get("next") or document.get("next_after")
        all_headers |= {} if following is None else {"X-Next": str(following)}
        return Response(b"".join(lines(document[list_field])), status, all_headers, NDJSON)
    response = Response(as_json(document), status, all_headers, JSON)
    return tagged(request, response, tag_of(document)) if _is_tagged(request, response) else response


def tag_of(document: Any) -> str:
    """Return the weak ``ETag`` of an answer (RFC 9110, section 8.8.3), ignoring the instant for which it was made.

    For a page it is built from its answers, each without its own instant.
    """
    timeless = _timeless(document)
    if isinstance(timeless, dict):
        timeless = {name: _timeless(value) for name, value in timeless.items()}
    return f'W/"{hashlib.blake2b(as_json(timeless), digest_size=12).hexdigest()}"'


def _timeless(document: Any) -> Any:
    if not isinstance(document, dict) or OF_THE_MOMENT.isdisjoint(document):
        return document
    moment = OF_THE_MOMENT
    if document.get("counted_at") == document.get("now"):
        moment = moment | {"counted_at"}  # it was counted for the request
    return {name: value for name, value in document.items() if name not in moment}


def stream(request: Request, items: Iterable[BaseModel | Mapping[str, Any]]) -> Response:
    """Stream a long answer: one object a line, as they arrive."""
    show = hidden if request.state.identity is None else (lambda document: document)
    return StreamingResponse(lines(show(plain(item)) for item in items), media_type=NDJSON)


def lines(documents: Iterable[Any]) -> Iterator[bytes]:
    """Yield each document as a line of JSON."""
    for document in documents:
        yield as_json(document) + b"\n"


def tagged(request: Request, response: Response, tag: str) -> Response:
    """Return an answer with its ``ETag``, without a body if the client already has it.

    Args:
        request: the request to answer.
        response: the answer.
        tag: tag of its content.
    """
    if not _is_tagged(request, response):
        return response
    response.headers.setdefault("ETag", tag)
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["Vary"] = "Accept, Authorization, Cookie"
    known_tags = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if response.headers["ETag"].removeprefix("W/") in known_tags or "*" in known_tags:
        headers = {name: response.headers[name] for name in ("ETag", "Cache-Control", "Vary")}
        return Response(status_code=304, headers=headers)
    return response


def _is_tagged(request: Request, response: Response) -> bool:
    return request.method in ("GET", "HEAD") and response.status_code == 200


def _chosen(document: Any, field_names: str, list_field: str | None) -> Any:
    names = [name for name in field_names[:LONGEST_FIELDS].split(",") if name]
    if list_field is not None:
        return {**document, list_field: [_fields(item, names) for item in document[list_field]]}
    return _fields(document, names)


def _fields(document: Any, names: list[str]) -> dict[str, Any]:
    selection: dict[str, Any] = {}
    for name in names:
        source, target = document, selection
        parts = name.split(".")
        for position, part in enumerate(parts):
            if not isinstance(source, dict) or part not in source:
                problem = FieldProblem(where="query.fields", what=f"there is no field {name[:100]}")
                raise Problem(400, "unknown_field", f"there is no field {name[:100]}", errors=[problem])
            source = source[part]
            if position < len(parts) - 1:
                target = target.setdefault(part, {})
            else:
                target[part] = source
    return selection


_NOT_IN_A_PATH = re.compile(r"[\x00-\x1f\x7f-\x9f/\\~]")
_ONLY_DOTS = re.compile(r"\.{1,2}")
_WRITTEN = re.compile(rb"~([0-9a-fA-F]{2})")


def to_path(name: str) -> str:
    """Escape a name as a path segment that :func:`from_path` reads back."""
    odd = _ONLY_DOTS if _ONLY_DOTS.fullmatch(name) else _NOT_IN_A_PATH
    plain = odd.sub(lambda match: "".join(f"~{byte:02x}" for byte in match[0].encode()), name)
    return quote(plain, safe="~")


def from_path(part: str) -> str:
    """Return the name behind a path segment, already percent-decoded; invalid UTF-8 stays as it is."""
    try:
        return _WRITTEN.sub(lambda match: bytes([int(match[1], 16)]), part.encode()).decode()
    except UnicodeDecodeError:
        return part
