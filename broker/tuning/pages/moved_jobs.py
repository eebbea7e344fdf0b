"""How many jobs a change may move at most: the last preview of the same value says how many it would. Pure but for it.

What was previewed and allowed stands with the reason of the change, where its history shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from broker.api.problems import Problem
from broker.whatif.statements.runs import Run

#: A preview that is older says nothing of the work that there is now.
OLDEST = timedelta(hours=1)
MOST = 10**9


def most_moved(fields: Mapping[str, str]) -> int | None:
    """How many jobs a form lets move; None where nobody said.

    Raises:
        Problem: it is no number of jobs.
    """
    text = fields.get("moved", "").strip().replace(",", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= MOST):
        raise Problem(
            422, "invalid_request", "jobs that may move must be a whole number", "leave it empty for no limit"
        )
    return int(text)


def within(run: Run | None, wanted: Mapping[str, Any], most: int | None, now: datetime, share: float = 1.0) -> str:
    """What is added to the reason of a change whose preview keeps to a limit; empty without a limit. Pure.

    Args:
        run: the last preview of the key.
        wanted: key and value.
        most: jobs that may move.
        now: of the change (aware).
        share: of the tasks for which the value is to count.

    Raises:
        Problem: the value was not previewed lately, or moves more jobs.
    """
    if most is None:
        return ""
    if run is None or dict(run.asked.get("set") or {}) != dict(wanted) or not _is_fresh(run, now):
        raise Problem(
            409, "not_previewed", "this value was not previewed within the last hour", "preview it first, then set it"
        )
    moved, jobs = moved_jobs(run.result)
    expected = round(share * moved)
    if expected > most:
        raise Problem(
            409,
            "too_many_jobs_move",
            f"the preview, run {run.id}, moves {moved:,} of {jobs:,} jobs"
            + (f", of the chosen tasks about {expected:,}" if share < 1 else "")
            + f"; at most {most:,} may move",
            "choose a value that changes less, or let more move",
        )
    return f" (run {run.id}: {expected:,} of {jobs:,} jobs move, at most {most:,})"


def _is_fresh(run: Run, now: datetime) -> bool:
    return run.ended_at is not None and now - run.ended_at <= OLDEST


def moved_jobs(result: Any) -> tuple[int, int]:
    """The jobs that a comparison moves, and of how many. Pure."""
    totals = (result or {}).get("totals", ()) if isinstance(result, Mapping) else ()
    return sum(one["jobs"]["moved"] for one in totals), sum(one["jobs"]["before"] for one in totals)
