"""Scopes of a token: names with paths that are compared component by component.

Source: WLCG common JWT profile 1.3, sections on scope-based authorisation: a path of a scope covers what is at it and
below it; ``/home`` does not cover ``/homely``. A path with ``..``, ``.``, an empty component or an escape is no path.
"""

from __future__ import annotations

from dataclasses import dataclass

WHOLE = "/"
LONGEST_SCOPE = 4096


@dataclass(frozen=True)
class Scope:
    """One scope: ``name`` or ``name:/path``. Without a path it is for everything."""

    name: str
    path: str = WHOLE


def components(path: str) -> tuple[str, ...] | None:
    """The components of a path that begins with a slash; None for what is no plain path."""
    if not path.startswith("/") or any(mark in path for mark in ("%", "\\", "\0", "?", "#")):
        return None
    inner = path[1:].removesuffix("/")
    found = tuple(inner.split("/")) if inner else ()
    return None if any(one in ("", ".", "..") for one in found) else found


def covers(allowed: str, wanted: str) -> bool:
    """Whether the path ``allowed`` is that of ``wanted`` or above it; what is no path covers nothing."""
    above, below = components(allowed), components(wanted)
    return above is not None and below is not None and below[: len(above)] == above


def read_scopes(claim: object) -> tuple[Scope, ...]:
    """The scopes of a ``scope`` claim: a text with spaces, or a list of texts. What is malformed grants nothing."""
    if isinstance(claim, str):
        words = claim.split() if len(claim) <= LONGEST_SCOPE else []
    elif isinstance(claim, list) and all(isinstance(one, str) for one in claim):
        words = claim
    else:
        return ()
    found = []
    for word in words:
        name, separator, path = word.partition(":")
        if not separator:
            found.append(Scope(name))
        elif components(path) is not None:
            found.append(Scope(name, path))
    return tuple(found)
