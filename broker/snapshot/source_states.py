"""How sources of a snapshot were found, and whether each may be used: present, fresh, and not suddenly smaller.

A source that is not usable makes the rules that need it answer *unknown*. It never looks like an empty one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from broker.snapshot.raw import RawSource
from broker.snapshot.source import SourceLimit

State = Literal["ok", "stale", "missing", "shrunk", "failed", "changed"]


@dataclass(frozen=True)
class SourceState:
    """How a source was found. ``age_s`` is that of its newest row; ``used`` says which reading the snapshot holds."""

    name: str
    state: State
    rows: int
    age_s: float | None
    limit_s: float | None
    dropped_rows: int = 0
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        """The state as JSON, as stored with a snapshot; the key ``dropped_rows`` predates its name here."""
        found = dataclasses.asdict(self)
        found["left_out"] = found.pop("dropped_rows")
        return found

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SourceState:
        """Read the JSON of :meth:`as_json` of this or an older version; unknown fields are ignored.

        Raises:
            TypeError: a field without a default is missing.
        """
        fields = {field.name for field in dataclasses.fields(cls)}
        named = {"dropped_rows" if name == "left_out" else name: value for name, value in document.items()}
        return cls(**{name: value for name, value in named.items() if name in fields})

    @property
    def usable(self) -> bool:
        """Whether rules may judge by it: fresh and there. For a shrunk one the last good reading stands in."""
        return self.state in ("ok", "shrunk")


def assess(
    source: RawSource, now: datetime, limit: SourceLimit, last_good: RawSource | None = None
) -> tuple[RawSource, SourceState]:
    """The reading to use and the state of the source.

    Args:
        source: what was read now.
        now: the instant of the snapshot (aware).
        limit: what is asked of this source.
        last_good: the last reading that was used, kept when the new one has shrunk by more than ``limit.max_shrink``.
    """
    missing = not limit.may_be_empty and _is_empty(source, limit.main_table)
    if missing and (last_good is None or _is_empty(last_good, limit.main_table)):
        return source, SourceState(source.name, "missing", source.row_count, None, limit.max_age_s, detail="no rows")
    used, state, detail = source, "ok", ""
    shrunk = "" if last_good is None else _shrunk(source, last_good, 1.0 - limit.max_shrink)
    if last_good is not None and (missing or shrunk):
        used, state = last_good, "shrunk"
        detail = f"{shrunk or 'no rows'}: refused, the last good reading is kept"
    age_s = _age_s(used, now)
    if limit.max_age_s is not None and age_s is not None and age_s > limit.max_age_s:
        return used, SourceState(source.name, "stale", used.row_count, age_s, limit.max_age_s, detail=detail)
    final: State = "shrunk" if state == "shrunk" else "ok"
    return used, SourceState(source.name, final, used.row_count, age_s, limit.max_age_s, detail=detail)


def _is_empty(source: RawSource, main: str | None) -> bool:
    return source.row_count == 0 if main is None else len(source.rows(main)) == 0


def _shrunk(source: RawSource, last_good: RawSource, share_to_keep: float) -> str:
    """Which table has lost too many rows, empty if none has: one that is whole must not hide one that is not."""
    for table in sorted(last_good.tables):
        now, before = len(source.rows(table)), len(last_good.rows(table))
        if now < before * share_to_keep:
            return f"{table}: {now} rows after {before}"
    return ""


def _age_s(source: RawSource, now: datetime) -> float | None:
    if source.newest is None:
        return None
    newest = source.newest if source.newest.tzinfo is not None else source.newest.replace(tzinfo=UTC)
    return max(0.0, (now - newest).total_seconds())
