"""An answer cut to a number of bytes, with what was left out and the cursors to it. Pure.

Long texts are cut, and so are the ends of lists and of objects with many names, the longest first. A cut of a list or
an object has a cursor: the same request with it returns what follows.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.errors import WRONG_USAGE, BrokerError

Pointer = tuple[str | int, ...]
LEAST_BYTES = 2_000
"""Below this size an answer has no room for its names."""
_NAME_BYTES, _LIST_BYTES, _ELLIPSIS = 4, 2, "..."


class WrongCursor(BrokerError):
    """No answer gave this cursor, or it is no longer valid."""

    exit_status = WRONG_USAGE


@dataclass(frozen=True)
class Cut:
    """A part of an answer that was cut.

    Attributes:
        at: position in the answer.
        first: number of the first item shown.
        shown: number of items, names or characters shown.
        of: total number.
        follows: whether a cursor leads to the rest.
    """

    at: Pointer
    first: int
    shown: int
    of: int
    follows: bool = True


@dataclass(frozen=True)
class Place:
    """The place where an answer continues.

    Attributes:
        after: the API's own cursor of the page; None: the first page.
        at: the list or object that continues within the page; None: the page as a whole.
        first: its first item or name to return.
    """

    after: Any = None
    at: Pointer | None = None
    first: int = 0


def size_of(value: Any) -> int:
    """Return the size in bytes of a document as JSON, as sent."""
    return len(as_text(value).encode())


def as_text(value: Any) -> str:
    """Return a document as JSON, without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def bounded(value: Any, most_bytes: int, at: Pointer = (), first: int = 0) -> tuple[Any, tuple[Cut, ...]]:
    """Cut a document to at most ``most_bytes``; return it with what was cut.

    Args:
        value: the document, or its part from item ``first`` on.
        most_bytes: at least :data:`LEAST_BYTES`.
        at: its position in the answer.
        first: number of its items or names that were shown before.
    """
    if size_of(value) <= most_bytes:
        return value, ()
    if isinstance(value, str):
        return _text(value, most_bytes, at)
    if isinstance(value, Mapping):
        return _object(value, most_bytes, at, first)
    if isinstance(value, Sequence):
        return _list(value, most_bytes, at, first)
    return value, ()


def _text(value: str, most_bytes: int, at: Pointer) -> tuple[str, tuple[Cut, ...]]:
    text = value[: max(most_bytes - _NAME_BYTES, 0)]
    while text and size_of(text + _ELLIPSIS) > most_bytes:
        text = text[: len(text) * 3 // 4]
    return text + _ELLIPSIS, (Cut(at, 0, len(text), len(value), follows=False),)


def _list(values: Sequence[Any], most_bytes: int, at: Pointer, first: int) -> tuple[list[Any], tuple[Cut, ...]]:
    room, items, inner = most_bytes - _LIST_BYTES, list[Any](), tuple[Cut, ...]()
    for position, value in enumerate(values):
        size = size_of(value) + 1
        if size > room:
            if position == 0:  # the first is always shown if there is room, cut if necessary
                part, inner = bounded(value, room - 1, (*at, first))
                items = [part] if size_of(part) < room else []
            break
        items.append(value)
        room -= size
    cut = _cut(at, first, len(items), len(values), most_bytes)
    return items, (*cut, *(inner if items else ()))


def _cut(at: Pointer, first: int, shown: int, there: int, most_bytes: int) -> tuple[Cut, ...]:
    """Describe a list that is not shown whole; without a cursor if not even the first item fits."""
    follows = shown > 0 or most_bytes < LEAST_BYTES
    return () if shown == there else (Cut(at, first, shown, first + there, follows),)


def _object(
    value: Mapping[str, Any], most_bytes: int, at: Pointer, first: int
) -> tuple[dict[str, Any], tuple[Cut, ...]]:
    sizes = {name: size_of(item) for name, item in value.items()}
    names = {name: size_of(name) + 2 for name in value}
    room = most_bytes - _LIST_BYTES - sum(names.values())
    least = sum(min(size, LEAST_BYTES // 10) for size in sizes.values())
    if room < least and len(value) > 1:
        return _names(value, most_bytes, at, first)
    shares = _shares(sizes, room)
    content, cuts = dict[str, Any](), list[Cut]()
    for name, item in value.items():
        content[name], inner = bounded(item, shares[name], (*at, name))
        cuts += inner
    return content, tuple(cuts)


def _names(
    value: Mapping[str, Any], most_bytes: int, at: Pointer, first: int
) -> tuple[dict[str, Any], tuple[Cut, ...]]:
    """Return as many names as fit, in the same way as for a list."""
    room, content, inner = most_bytes - _LIST_BYTES, dict[str, Any](), tuple[Cut, ...]()
    for position, (name, item) in enumerate(value.items()):
        size = size_of(name) + size_of(item) + 2
        if size > room:
            if position == 0:
                part, inner = bounded(item, room - size_of(name) - 2, (*at, name))
                content = {name: part} if size_of(name) + size_of(part) + 2 <= room else {}
            break
        content[name] = item
        room -= size
    cut = _cut(at, first, len(content), len(value), most_bytes)
    return content, (*cut, *(inner if content else ()))


def _shares(sizes: Mapping[str, int], room: int) -> dict[str, int]:
    """Return how many bytes each may have: small ones all they need, the others equal shares."""
    shares, remaining = {}, room
    for position, (name, size) in enumerate(sorted(sizes.items(), key=lambda entry: entry[1])):
        shares[name] = min(size, remaining // (len(sizes) - position))
        remaining -= shares[name]
    return shares


def part_at(document: Any, place: Place) -> Any:
    """Return the rest of a list or object of a document.

    Raises:
        WrongCursor: there is no such list or object, or no more of it.
    """
    part = document
    for step in place.at or ():
        try:
            part = part[step]
        except (LookupError, TypeError):
            raise _stale_cursor(place) from None
    if isinstance(part, Mapping):
        part = dict(list(part.items())[place.first :])
    elif isinstance(part, list):
        part = part[place.first :]
    else:
        raise _stale_cursor(place)
    if not part:
        raise _stale_cursor(place)
    return part


def _stale_cursor(place: Place) -> WrongCursor:
    where = "/".join(map(str, place.at or ()))
    return WrongCursor("nothing follows there any more", f"cursor, {where or 'answer'}", "ask without a cursor")


def cursor_of(place: Place) -> str:
    """Return a place as a text."""
    return base64.urlsafe_b64encode(as_text([place.after, place.at, place.first]).encode()).decode().rstrip("=")


def place_of(cursor: str | None) -> Place:
    """Return the place in a cursor; the beginning without one.

    Raises:
        WrongCursor: the cursor is not one of ours.
    """
    if cursor is None:
        return Place()
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        after, at, first = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise _not_ours(cursor) from None
    good = at is None or (isinstance(at, list) and all(isinstance(step, str | int) for step in at))
    if not good or isinstance(after, list | dict) or type(first) is not int or first < 0:
        raise _not_ours(cursor)
    return Place(after, None if at is None else tuple(at), first)


def _not_ours(cursor: str) -> WrongCursor:
    return WrongCursor(f"no cursor of an answer: {cursor[:40]!r}", "cursor", "ask without a cursor")
