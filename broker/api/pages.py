"""Pages of lists: ``?after=CURSOR&limit=N``. A cursor is opaque: what it holds may change, its meaning does not."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel

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
