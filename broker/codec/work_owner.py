"""The owner of the work of a decision, read from the work stored with it."""

from __future__ import annotations

from dataclasses import dataclass

from broker.codec.work_codec import WorkCorruptError, unpacked

_TABLES = ("c", "tasks")
"""The tables of a chunk, and of a task that is given a nucleus."""


@dataclass(frozen=True)
class WorkOwner:
    """VO and global share of work at the time of its decision; None where not stored."""

    vo: str | None = None
    gshare: str | None = None


def owner_of(work: bytes | None) -> WorkOwner:
    """The owner of stored work; unknown if there is no work, or it cannot be read."""
    if work is None:
        return WorkOwner()
    try:
        body = unpacked(work)
        table = next(body[name] for name in _TABLES if name in body)
        return WorkOwner(_text(table["vo"][0]), _text(table["gshare"][0]))
    except (WorkCorruptError, StopIteration, KeyError, IndexError, TypeError):
        return WorkOwner()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
