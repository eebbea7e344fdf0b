"""How many jobs a change may move at most: the last preview of the same values says how many it would.

What was previewed and allowed stands with the reason of the change, where its history shows it; a change
that was refused stays on record, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from broker.errors import Refused
from broker.gdpconfig.proposals import Proposal
from broker.store.connection.database import Database
from broker.tuning.answers.canaries import proposals_of
from broker.tuning.statements import refused_changes
from broker.tuning.statements.gdpconfig_rows import REASON_MAX_CHARACTERS
from broker.tuning.statements.refused_changes import Attempt, RefusedChange
from broker.whatif.answers.previews import newest_preview

#: A preview that is older says nothing of the work that there is now.
OLDEST = timedelta(hours=1)
MOST = 10**9
"""Jobs that a limit may name."""


class NotPreviewed(Refused):
    """The values were not previewed lately."""

    code = "not_previewed"


class TooManyJobsMove(Refused):
    """The preview moves more jobs than may move."""

    code = "too_many_jobs_move"


@dataclass(frozen=True)
class Counted:
    """What a preview counted: jobs that move, of how many, and its run; None where a command looked itself."""

    moved: int
    jobs: int
    run: int | None = None


@dataclass(frozen=True)
class LimitedChange:
    """A change that somebody wants, and its limit.

    Attributes:
        proposals: keys, values and VOs.
        most: jobs that may move; None for no limit.
        editor: who.
        reason: why.
        share: of the tasks that the values are for.
    """

    proposals: tuple[Proposal, ...]
    most: int | None
    editor: str
    reason: str
    share: float = 1.0

    @property
    def attempt(self) -> Attempt:
        """For some of the tasks it is a canary."""
        return "canary" if self.share < 1 else "set"


def judged(counted: Counted | None, most: int, share: float = 1.0) -> str | Refused:
    """What is said of a change that keeps to its limit, else why it is refused. Pure.

    Args:
        counted: what the preview of the same values counted; None where there is none that is new enough.
        most: jobs that may move.
        share: of the tasks for which the values are to count.
    """
    if counted is None:
        return NotPreviewed(
            "these values were not previewed within the last hour", "", "preview them first, then make the change"
        )
    expected, by = (
        _expected(counted, share),
        "the preview" if counted.run is None else f"the preview, run {counted.run},",
    )
    if expected <= most:
        run = "previewed" if counted.run is None else f"run {counted.run}"
        return f"{run}: {expected:,} of {counted.jobs:,} jobs move, at most {most:,}"
    of_share = f", of the chosen tasks about {expected:,}" if share < 1 else ""
    return TooManyJobsMove(
        f"{by} moves {counted.moved:,} of {counted.jobs:,} jobs{of_share}; at most {most:,} may move",
        "",
        "choose a value that changes less, or let more move",
    )


def reason_within(database: Database, change: LimitedChange, now: datetime, looked: Counted | None = None) -> str:
    """The reason of a change that keeps to its limit, with what was counted. One that does not is noted.

    Args:
        database: with previews and the history.
        change: what is wanted.
        now: of the change (aware).
        looked: what whoever makes the change has just counted; None: the last preview on record counts.

    Raises:
        NotPreviewed: nothing was counted within the last hour.
        TooManyJobsMove: more jobs move than may.
    """
    if change.most is None:
        return change.reason
    counted = looked or _on_record(database, change.proposals, now)
    said = judged(counted, change.most, change.share)
    if isinstance(said, str):
        known = f" ({said})"
        return change.reason[: REASON_MAX_CHARACTERS - len(known)] + known
    with database.begin() as connection:
        refused_changes.note(connection, _refused(change, counted, str(getattr(said, "code", "")), now))
    raise said


def refusals(database: Database, key: str | None, most: int) -> list[RefusedChange]:
    """Changes that were refused for the jobs that they move, of one key or of all, the newest first."""
    with database.read_snapshot() as connection:
        return refused_changes.newest(connection, key, most)


def _on_record(database: Database, proposals: Sequence[Proposal], now: datetime) -> Counted | None:
    """What the newest preview of these values counted; None where it is too old or about others."""
    with database.begin() as connection:
        found = newest_preview(connection, [one.key for one in proposals])
    if found is None or now - found.ended_at > OLDEST:
        return None
    tried = {one.key: one for one in proposals_of(found.values, found.vo, database.names.vo)}
    if tried != {one.key: one for one in proposals}:
        return None
    return Counted(found.moved, found.jobs, found.run)


def _refused(change: LimitedChange, counted: Counted | None, code: str, now: datetime) -> list[RefusedChange]:
    return [
        RefusedChange(
            refused_at=now,
            editor=change.editor,
            reason=change.reason,
            attempt=change.attempt,
            key=one.key,
            vo=one.vo,
            value=one.value,
            share=change.share,
            code=code,
            run=None if counted is None else counted.run,
            jobs_moved=None if counted is None else _expected(counted, change.share),
            jobs=None if counted is None else counted.jobs,
            most_moved=change.most or 0,
        )
        for one in change.proposals
    ]


def _expected(counted: Counted, share: float) -> int:
    return round(share * counted.moved)
