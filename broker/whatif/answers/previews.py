"""What the newest preview of values said of the jobs that they move."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.whatif.statements import runs


@dataclass(frozen=True)
class Previewed:
    """A preview that was done.

    Attributes:
        run: its number.
        ended_at: when (aware).
        values: that were tried, by key, as they were asked for.
        vo: of the tasks that they are for; None for that of the installation.
        moved: jobs that become placed otherwise.
        jobs: of how many.
    """

    run: int
    ended_at: datetime
    values: Mapping[str, Any]
    vo: str | None
    moved: int
    jobs: int


def newest_preview(connection: sa.Connection, keys: Collection[str]) -> Previewed | None:
    """The newest preview or what-if of values of these keys together, and of no rule; None where none was done."""
    run = runs.newest_of_keys(connection, ("preview", "what_if"), keys)
    if run is None or run.ended_at is None:
        return None
    moved, jobs = moved_jobs(run.result)
    return Previewed(run.id, run.ended_at, dict(run.asked["set"]), run.asked.get("vo"), moved, jobs)


def moved_jobs(result: Any) -> tuple[int, int]:
    """The jobs that a comparison moves, and of how many. Pure."""
    totals = (result or {}).get("totals", ()) if isinstance(result, Mapping) else ()
    return sum(one["jobs"]["moved"] for one in totals), sum(one["jobs"]["before"] for one in totals)
