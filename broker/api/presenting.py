"""How routes answer: pages of lists, chosen fields, ETag, JSON or NDJSON, names of users for those who may see them.

Pages: ``?after=CURSOR&limit=N``. A cursor is opaque: what it holds may change, its meaning does not.

A name of a person is one part of a path: control characters, ``/`` and a backslash stand as ``~`` and two hexadecimal
digits for each byte of UTF-8, ``~`` itself as ``~7e``, and so do the dots of a name that is nothing else.
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
    str | None, Query(max_length=LONGEST_CURSOR, description="The cursor `next` of the page before; none: the first.")
]
Limit = Annotated[int, Query(ge=1, le=500, description="Largest number of items of the page.")]


class Page(BaseModel, Generic[T]):
    """A part of a list.

    Attributes:
        items: in the order of the list.
        next: the cursor of the page that follows; null at the end.
    """

    items: list[T]
    next: str | None = None


def cursor_of(key: Sequence[Any]) -> str:
    """The cursor behind an item with this key."""
    return base64.urlsafe_b64encode(json.dumps(list(key), default=str).encode()).decode().rstrip("=")


def key_of(cursor: str | None, kinds: tuple[type, ...]) -> tuple[Any, ...] | None:
    """The key in a cursor; None without one.

    Args:
        cursor: as a client sent it.
        kinds: type of each part of the key.

    Raises:
        Problem: it is none of ours.
    """
    if cursor is None:
        return None
    try:
        found = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise _bad_cursor() from None
    if not isinstance(found, list) or len(found) != len(kinds):
        raise _bad_cursor()
    if any(type(part) is not kind for part, kind in zip(found, kinds, strict=True)):
        raise _bad_cursor()
    if any(kind is int and not -(2**63) <= part < 2**63 for part, kind in zip(found, kinds, strict=True)):
        raise _bad_cursor()
    if any(kind is str and "\0" in part for part, kind in zip(found, kinds, strict=True)):
        raise _bad_cursor()
    return tuple(found)


def page_of(items: Sequence[T], limit: int, key: Callable[[T], Sequence[Any]]) -> Page[T]:
    """The page of ``items``, of which one more than ``limit`` was read to see whether another follows."""
    shown = list(items[:limit])
    return Page(items=shown, next=cursor_of(key(shown[-1])) if len(items) > limit else None)


def slice_of(items: Sequence[T], after: str | None, limit: int) -> Page[T]:
    """A page of a list that is short enough to be made whole; the cursor counts items."""
    key = key_of(after, (int,))
    start = min(max(0 if key is None else key[0], 0), len(items))
    found = list(items[start : start + limit])
    end = start + len(found)
    return Page(items=found, next=cursor_of([end]) if end < len(items) else None)


def _bad_cursor() -> Problem:
    problem = FieldProblem(where="query.after", what="no cursor of this list")
    return Problem(400, "bad_cursor", "the cursor is none of this list", "begin without one", errors=[problem])


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
    response = Response(as_json(document), status, given, JSON)
    return tagged(request, response, tag_of(document)) if _is_tagged(request, response) else response


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
    if not _is_tagged(request, response):
        return response
    response.headers.setdefault("ETag", tag)
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["Vary"] = "Accept, Authorization, Cookie"
    held = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    if response.headers["ETag"].removeprefix("W/") in held or "*" in held:
        kept = {name: response.headers[name] for name in ("ETag", "Cache-Control", "Vary")}
        return Response(status_code=304, headers=kept)
    return response


def _is_tagged(request: Request, response: Response) -> bool:
    return request.method in ("GET", "HEAD") and response.status_code == 200


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


_NOT_IN_A_PATH = re.compile(r"[\x00-\x1f\x7f-\x9f/\\~]")
_ONLY_DOTS = re.compile(r"\.{1,2}")
_WRITTEN = re.compile(rb"~([0-9a-fA-F]{2})")


def to_path(name: str) -> str:
    """A name as a part of an address, which :func:`from_path` reads again."""
    odd = _ONLY_DOTS if _ONLY_DOTS.fullmatch(name) else _NOT_IN_A_PATH
    plain = odd.sub(lambda found: "".join(f"~{byte:02x}" for byte in found[0].encode()), name)
    return quote(plain, safe="~")


def from_path(part: str) -> str:
    """The name that a part of a path, its percent signs resolved, stands for; what is no UTF-8 stands as it is."""
    try:
        return _WRITTEN.sub(lambda found: bytes([int(found[1], 16)]), part.encode()).decode()
    except UnicodeDecodeError:
        return part
