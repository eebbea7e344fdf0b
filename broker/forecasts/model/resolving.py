"""What came of forecasts: started after so long, ended without a start, not within the horizon, or still open. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Kind = Literal["queue", "task", "task_kind"]
Outcome = Literal["started", "gone", "late"]
#: Where nothing came for so long that a forecast could be judged by, it is not judged.
NOBODY_CAME_S = 3600.0


@dataclass(frozen=True)
class Open:
    """A forecast that waits for its judgement.

    Attributes:
        tracked: the job or task by which it is judged; None where none came yet.
    """

    id: int
    kind: Kind
    subject: str
    made_at: datetime
    tracked: int | None


@dataclass(frozen=True)
class Seen:
    """What is known of the job or task by which a forecast is judged.

    Attributes:
        began_at: from when its wait counts: when it came, or when the forecast was made.
        started_at: None before its start.
        is_there: whether it may still start.
    """

    began_at: datetime
    started_at: datetime | None
    is_there: bool


@dataclass(frozen=True)
class Judged:
    """What is noted of a forecast.

    Attributes:
        outcome: None while it is open.
        waited_s: to the start, or so far.
        is_kept: false where nothing came by which to judge it.
    """

    id: int
    tracked: int | None
    outcome: Outcome | None
    waited_s: float
    is_kept: bool = True


def judge(one: Open, tracked: int | None, seen: Seen | None, now: datetime, horizon_s: float) -> Judged:
    """What is noted of an open forecast at ``now``.

    Args:
        one: the forecast.
        tracked: by what it is judged; None where nothing came yet.
        seen: what is known of that; None where it is not there any more.
        now: aware.
        horizon_s: after which it is late.
    """
    if tracked is None:
        came_too_late = (now - one.made_at).total_seconds() >= NOBODY_CAME_S
        return Judged(one.id, None, None, 0.0, is_kept=not came_too_late)
    if seen is None:
        return Judged(one.id, tracked, "gone", 0.0)
    ended = now if seen.started_at is None else seen.started_at
    waited_s = max(0.0, (ended - seen.began_at).total_seconds())
    if seen.started_at is not None:
        return Judged(one.id, tracked, "started" if waited_s <= horizon_s else "late", min(waited_s, horizon_s))
    if waited_s >= horizon_s:
        return Judged(one.id, tracked, "late", horizon_s)
    return Judged(one.id, tracked, None if seen.is_there else "gone", waited_s)
