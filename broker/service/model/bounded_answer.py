"""An answer cut to a number of bytes, with what was left out and the cursors that lead to it. Pure.

What is cut is the end of lists and of objects with many names, the longest first, and long texts. A cut of a list
or an object has a cursor: the same question with it gives what follows there.
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
"""Below this an answer has no room for its names."""
_NAME_BYTES, _LIST_BYTES, _ELLIPSIS = 4, 2, "..."


class WrongCursor(BrokerError):
    """A cursor that no answer gave, or that leads nowhere any more."""

    exit_status = WRONG_USAGE


@dataclass(frozen=True)
class Cut:
    """Something that was cut.

    Attributes:
        at: where it stands in the answer.
        first: number of the first item that is shown.
        shown: items, names or characters that are shown.
        of: how many there are.
        follows: whether a cursor leads to the rest.
    """

    at: Pointer
    first: int
    shown: int
    of: int
    follows: bool = True


@dataclass(frozen=True)
class Place:
    """Where an answer goes on.

    Attributes:
        after: the API's own cursor of the page; None: the first page.
        at: the list or object in it that goes on; None: the page as a whole.
        first: its first item or name that is wanted.
    """

    after: Any = None
    at: Pointer | None = None
    first: int = 0


def size_of(value: Any) -> int:
    """The bytes of a document as JSON, as it is sent."""
    return len(as_text(value).encode())


def as_text(value: Any) -> str:
    """A document as JSON, without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def bounded(value: Any, most_bytes: int, at: Pointer = (), first: int = 0) -> tuple[Any, tuple[Cut, ...]]:
    """A document of ``most_bytes`` at most, and what was cut.

    Args:
        value: the document, or what of it begins at item ``first``.
        most_bytes: at least :data:`LEAST_BYTES`.
        at: where it stands in the answer.
        first: items or names of it that were shown before.
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
    shown = value[: max(most_bytes - _NAME_BYTES, 0)]
    while shown and size_of(shown + _ELLIPSIS) > most_bytes:
        shown = shown[: len(shown) * 3 // 4]
    return shown + _ELLIPSIS, (Cut(at, 0, len(shown), len(value), follows=False),)


def _list(values: Sequence[Any], most_bytes: int, at: Pointer, first: int) -> tuple[list[Any], tuple[Cut, ...]]:
    left, shown, inner = most_bytes - _LIST_BYTES, list[Any](), tuple[Cut, ...]()
    for position, value in enumerate(values):
        size = size_of(value) + 1
        if size > left:
            if position == 0:  # it is shown in any case where there is room, cut in itself
                part, inner = bounded(value, left - 1, (*at, first))
                shown = [part] if size_of(part) < left else []
            break
        shown.append(value)
        left -= size
    cut = _cut(at, first, len(shown), len(values), most_bytes)
    return shown, (*cut, *(inner if shown else ()))


def _cut(at: Pointer, first: int, shown: int, there: int, most_bytes: int) -> tuple[Cut, ...]:
    """What is said of a list that is not shown whole; nothing leads on where not even the first has room by itself."""
    follows = shown > 0 or most_bytes < LEAST_BYTES
    return () if shown == there else (Cut(at, first, shown, first + there, follows),)


def _object(
    value: Mapping[str, Any], most_bytes: int, at: Pointer, first: int
) -> tuple[dict[str, Any], tuple[Cut, ...]]:
    sizes = {name: size_of(one) for name, one in value.items()}
    names = {name: size_of(name) + 2 for name in value}
    room = most_bytes - _LIST_BYTES - sum(names.values())
    least = sum(min(size, LEAST_BYTES // 10) for size in sizes.values())
    if room < least and len(value) > 1:
        return _names(value, most_bytes, at, first)
    shares = _shares(sizes, room)
    found, cuts = dict[str, Any](), list[Cut]()
    for name, one in value.items():
        found[name], inner = bounded(one, shares[name], (*at, name))
        cuts += inner
    return found, tuple(cuts)


def _names(
    value: Mapping[str, Any], most_bytes: int, at: Pointer, first: int
) -> tuple[dict[str, Any], tuple[Cut, ...]]:
    """As many names as there is room for, as of a list."""
    left, found, inner = most_bytes - _LIST_BYTES, dict[str, Any](), tuple[Cut, ...]()
    for position, (name, one) in enumerate(value.items()):
        size = size_of(name) + size_of(one) + 2
        if size > left:
            if position == 0:
                part, inner = bounded(one, left - size_of(name) - 2, (*at, name))
                found = {name: part} if size_of(name) + size_of(part) + 2 <= left else {}
            break
        found[name] = one
        left -= size
    cut = _cut(at, first, len(found), len(value), most_bytes)
    return found, (*cut, *(inner if found else ()))


def _shares(sizes: Mapping[str, int], room: int) -> dict[str, int]:
    """How many bytes each may have: the small ones all that they need, the others the same."""
    shares, left = {}, room
    for position, (name, size) in enumerate(sorted(sizes.items(), key=lambda one: one[1])):
        shares[name] = min(size, left // (len(sizes) - position))
        left -= shares[name]
    return shares


def part_at(document: Any, place: Place) -> Any:
    """The rest of a list or object of a document.

    Raises:
        WrongCursor: there is nothing of the kind, or no more of it.
    """
    found = document
    for step in place.at or ():
        try:
            found = found[step]
        except (LookupError, TypeError):
            raise _gone(place) from None
    if isinstance(found, Mapping):
        found = dict(list(found.items())[place.first :])
    elif isinstance(found, list):
        found = found[place.first :]
    else:
        raise _gone(place)
    if not found:
        raise _gone(place)
    return found


def _gone(place: Place) -> WrongCursor:
    where = "/".join(map(str, place.at or ()))
    return WrongCursor("nothing follows there any more", f"cursor, {where or 'answer'}", "ask without a cursor")


def cursor_of(place: Place) -> str:
    """A place as a text."""
    return base64.urlsafe_b64encode(as_text([place.after, place.at, place.first]).encode()).decode().rstrip("=")


def place_of(cursor: str | None) -> Place:
    """The place in a cursor; the beginning without one.

    Raises:
        WrongCursor: it is none of ours.
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
