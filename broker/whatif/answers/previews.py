"""The jobs moved by values, according to the newest preview of these values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.whatif.statements import runs


@dataclass(frozen=True)
class Previewed:
    """A finished preview.

    Attributes:
        run: its number.
        ended_at: the instant at which it ended (aware).
        values: that were tried, by key, as requested.
        vo: of the tasks that they are for; None for that of the installation.
        moved: jobs that would be placed differently.
        jobs: number of all jobs.
    """

    run: int
    ended_at: datetime
    values: Mapping[str, Any]
    vo: str | None
    moved: int
    jobs: int


def newest_preview(connection: sa.Connection, keys: Collection[str]) -> Previewed | None:
    """The newest finished preview or what-if of values of exactly these keys and of no rule; None if there is none."""
    run = runs.newest_of_keys(connection, ("preview", "what_if"), keys)
    if run is None or run.ended_at is None:
        return None
    moved, jobs = moved_jobs(run.result)
    return Previewed(run.id, run.ended_at, dict(run.asked["set"]), run.asked.get("vo"), moved, jobs)


def moved_jobs(result: Any) -> tuple[int, int]:
    """The number of jobs that a comparison moves, and of all jobs. Pure."""
    totals = (result or {}).get("totals", ()) if isinstance(result, Mapping) else ()
    return sum(one["jobs"]["moved"] for one in totals), sum(one["jobs"]["before"] for one in totals)
