"""Values tried on a share of the tasks: start, stop, and what came of them, as typed answers.

How many jobs a change may move at most: the last preview of the same values says how many it would. A preview and its
limit are stored with the reason of the change; a refused change stays on record, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel

from broker.brokerages.registry import offered
from broker.domain.queues import TIGHTENING_KEYS
from broker.errors import Refused
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.gdpconfig.proposals import Canary, Proposal, check_canary, proposed
from broker.gdpconfig.publish import vo_to_edit
from broker.store.connection.database import Database
from broker.tuning.answers.values import typed_value
from broker.tuning.statements import canaries, refused_changes
from broker.tuning.statements.canaries import OutcomeOfGroup
from broker.tuning.statements.gdpconfig_rows import REASON_MAX_CHARACTERS, Json, TuningStore
from broker.tuning.statements.refused_changes import Attempt, RefusedChange
from broker.whatif.answers.previews import newest_preview

NOT_SPLIT = (*TIGHTENING_KEYS, "TW_DONE_JOB_STAT")
"""Keys that are read once for all tasks of a cycle."""
MOST_LISTED = 100


class CanaryAnswer(BaseModel):
    """One trial.

    Attributes:
        canary: its number.
        set: the values that are tried, by key.
        vo: VOs whose tasks they are for.
        share: of the tasks.
        running: whether it runs now.
        started_at: when it began.
        ends_at: when it ends by itself.
        stopped_at: when it was stopped; null for never.
        editor: who started it.
        reason: why.
        outcomes: what came of it.
    """

    canary: int
    set: dict[str, Json]
    vo: list[str]
    share: float
    running: bool
    started_at: datetime
    ends_at: datetime
    stopped_at: datetime | None
    editor: str
    reason: str
    outcomes: list[OutcomeOfGroup]


def proposals_of(values: Mapping[str, Any], vo: str | None, own: str) -> tuple[Proposal, ...]:
    """The values as proposals for a VO; for ``own``, that of the installation, where none is named.

    Raises:
        UnknownKeyError: a key is none.
        ValueRefusedError: a value is not acceptable.
    """
    found = []
    for key, given in values.items():
        _, value = typed_value(key, given)
        entry = shipped_catalogue(own).require(key)
        found.append(Proposal(key, value, vo_to_edit(entry, vo or own)))
    return tuple(found)


def tried(database: Database, now: datetime) -> list[CanaryAnswer]:
    """What was tried, the newest first."""
    with database.begin() as connection:
        listed = canaries.newest(connection, MOST_LISTED)
    return [_answer(database, one, now) for one in listed]


def start(
    database: Database,
    proposals: Sequence[Proposal],
    share: float,
    span: tuple[datetime, datetime],
    *,
    editor: str,
    reason: str,
) -> CanaryAnswer:
    """Start a trial on the values in force, those that other programs wrote included.

    Raises:
        CanaryRefused: it cannot be tried so, or another one runs.
    """
    check_canary(shipped_catalogue(database.names.vo), proposals, share, NOT_SPLIT, tuple(offered()))
    store = TuningStore(database.names)
    with database.begin() as connection:
        base = store.sync_outside_changes(connection)
    proposed(base, proposals)
    with database.begin() as connection:
        made = canaries.start(connection, proposals, share, span, editor=editor, reason=reason)
    return _answer(database, made, span[0])


def stop(database: Database, now: datetime) -> CanaryAnswer:
    """Stop the trial that runs.

    Raises:
        CanaryRefused: none does.
    """
    with database.begin() as connection:
        stopped = dataclasses.replace(canaries.stop(connection, now), stopped_at=now)
    return _answer(database, stopped, now)


def _answer(database: Database, one: Canary, now: datetime) -> CanaryAnswer:
    with database.begin() as connection:
        return canary_answer(one, canaries.outcomes(connection, one, tuple(offered())), now)


def canary_answer(one: Canary, outcomes: list[OutcomeOfGroup], now: datetime) -> CanaryAnswer:
    """One trial with what came of it, as every interface gives it."""
    return CanaryAnswer(
        canary=one.id,
        set={proposal.key: proposal.value for proposal in one.proposals},
        vo=sorted({proposal.vo for proposal in one.proposals}),
        share=one.share,
        running=one.runs_at(now),
        started_at=one.started_at,
        ends_at=one.ends_at,
        stopped_at=one.stopped_at,
        editor=one.editor,
        reason=one.reason,
        outcomes=outcomes,
    )


#: A preview that is older says nothing of the work that there is now.
OLDEST = timedelta(hours=1)
MOST_MOVED = 10**9
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
    """A requested change and its limit.

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
