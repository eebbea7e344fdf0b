"""Values tried on a share of the tasks (start, stop, outcomes), and limits on the jobs that a change may move.

The last preview of the same values says how many jobs a change would move. A preview and its limit are stored with the
reason of the change; a refused change is recorded, too.
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
from broker.store.gdpconfig_rows import REASON_MAX_CHARACTERS, Json, TuningStore
from broker.tuning.answers.values import typed_value
from broker.tuning.statements import canaries, refused_changes
from broker.tuning.statements.canaries import OutcomeOfGroup
from broker.tuning.statements.refused_changes import Attempt, RefusedChange
from broker.whatif.answers.previews import newest_preview

NOT_SPLIT = (*TIGHTENING_KEYS, "TW_DONE_JOB_STAT")
"""Keys that are read once for all tasks of a cycle."""
MOST_LISTED = 100


class CanaryAnswer(BaseModel):
    """A canary.

    Attributes:
        canary: number of the canary.
        set: values to try, by key.
        vo: VOs of the tasks.
        share: share of the tasks.
        running: whether it is running.
        started_at: start of the canary.
        ends_at: scheduled end.
        stopped_at: when it was stopped; null if it was not.
        editor: who started it.
        reason: reason for the canary.
        outcomes: outcomes by group and brokerage.
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
    """The values as proposals for a VO; without one, for ``own``, the VO of the installation.

    Raises:
        UnknownKeyError: there is no such key.
        ValueRefusedError: a value is not acceptable.
    """
    proposals = []
    for key, raw_value in values.items():
        _, value = typed_value(key, raw_value)
        entry = shipped_catalogue(own).require(key)
        proposals.append(Proposal(key, value, vo_to_edit(entry, vo or own)))
    return tuple(proposals)


def tried(database: Database, now: datetime) -> list[CanaryAnswer]:
    """The trials, newest first."""
    with database.begin() as connection:
        listed = canaries.newest(connection, MOST_LISTED)
    return [_answer(database, canary, now) for canary in listed]


def start(
    database: Database,
    proposals: Sequence[Proposal],
    share: float,
    span: tuple[datetime, datetime],
    *,
    editor: str,
    reason: str,
) -> CanaryAnswer:
    """Start a trial on the values in force, including those that other programs wrote.

    Raises:
        CanaryRefused: the values cannot be tried like this, or another trial is running.
    """
    check_canary(shipped_catalogue(database.names.vo), proposals, share, NOT_SPLIT, tuple(offered()))
    store = TuningStore(database.names)
    with database.begin() as connection:
        base = store.sync_outside_changes(connection)
    proposed(base, proposals)
    with database.begin() as connection:
        canary = canaries.start(connection, proposals, share, span, editor=editor, reason=reason)
    return _answer(database, canary, span[0])


def stop(database: Database, now: datetime) -> CanaryAnswer:
    """Stop the running trial.

    Raises:
        CanaryRefused: no trial is running.
    """
    with database.begin() as connection:
        stopped = dataclasses.replace(canaries.stop(connection, now), stopped_at=now)
    return _answer(database, stopped, now)


def _answer(database: Database, canary: Canary, now: datetime) -> CanaryAnswer:
    with database.begin() as connection:
        return canary_answer(canary, canaries.outcomes(connection, canary, tuple(offered())), now)


def canary_answer(one: Canary, outcomes: list[OutcomeOfGroup], now: datetime) -> CanaryAnswer:
    """One trial with its outcomes, as every interface returns it."""
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


#: An older preview says nothing about the current work.
OLDEST = timedelta(hours=1)
MOST_MOVED = 10**9
"""The largest number of jobs that a limit may name."""


class NotPreviewed(Refused):
    """The values were not previewed recently."""

    code = "not_previewed"


class TooManyJobsMove(Refused):
    """The preview moves more jobs than allowed."""

    code = "too_many_jobs_move"


@dataclass(frozen=True)
class PreviewCounts:
    """What a preview counted: moved jobs, all jobs, and its run; None if a command made the preview itself."""

    moved: int
    jobs: int
    run: int | None = None


@dataclass(frozen=True)
class LimitedChange:
    """A requested change and its limit.

    Attributes:
        proposals: keys, values and VOs.
        most: maximum number of jobs that may move; None for no limit.
        editor: who requests it.
        reason: why.
        share: share of the tasks that the values are for.
    """

    proposals: tuple[Proposal, ...]
    most: int | None
    editor: str
    reason: str
    share: float = 1.0

    @property
    def attempt(self) -> Attempt:
        """``canary`` for a share of the tasks, else ``set``."""
        return "canary" if self.share < 1 else "set"


def judged(counted: PreviewCounts | None, most: int, share: float = 1.0) -> str | Refused:
    """A sentence about a change that stays within its limit, else why it is refused. Pure.

    Args:
        counted: what the preview of the same values counted; None if there is no recent preview.
        most: maximum number of jobs that may move.
        share: share of the tasks that the values are for.
    """
    if counted is None:
        return NotPreviewed(
            "these values were not previewed within the last hour", "", "preview them first, then make the change"
        )
    expected, source = (
        _expected_moves(counted, share),
        "the preview" if counted.run is None else f"the preview, run {counted.run},",
    )
    if expected <= most:
        run = "previewed" if counted.run is None else f"run {counted.run}"
        return f"{run}: {expected:,} of {counted.jobs:,} jobs move, at most {most:,}"
    of_share = f", of the chosen tasks about {expected:,}" if share < 1 else ""
    return TooManyJobsMove(
        f"{source} moves {counted.moved:,} of {counted.jobs:,} jobs{of_share}; at most {most:,} may move",
        "",
        "choose a value that changes less, or let more move",
    )


def reason_within(database: Database, change: LimitedChange, now: datetime, looked: PreviewCounts | None = None) -> str:
    """The reason of a change that stays within its limit, with the counted jobs. A change beyond it is recorded.

    Args:
        database: database with previews and the history.
        change: the requested change.
        now: time of the change (aware).
        looked: what the caller has just counted; None: use the last preview on record.

    Raises:
        NotPreviewed: the values were not previewed within the last hour.
        TooManyJobsMove: more jobs move than the limit allows.
    """
    if change.most is None:
        return change.reason
    counted = looked or _previewed_count(database, change.proposals, now)
    judgement = judged(counted, change.most, change.share)
    if isinstance(judgement, str):
        suffix = f" ({judgement})"
        return change.reason[: REASON_MAX_CHARACTERS - len(suffix)] + suffix
    with database.begin() as connection:
        refused_changes.note(connection, _refusals_of(change, counted, str(getattr(judgement, "code", "")), now))
    raise judgement


def refusals(database: Database, key: str | None, most: int) -> list[RefusedChange]:
    """Changes refused because of the jobs that they move, for one key or all, newest first."""
    with database.read_snapshot() as connection:
        return refused_changes.newest(connection, key, most)


def _previewed_count(database: Database, proposals: Sequence[Proposal], now: datetime) -> PreviewCounts | None:
    """What the newest preview of these values counted; None if it is too old or of other values."""
    with database.begin() as connection:
        preview = newest_preview(connection, [proposal.key for proposal in proposals])
    if preview is None or now - preview.ended_at > OLDEST:
        return None
    previewed = {proposal.key: proposal for proposal in proposals_of(preview.values, preview.vo, database.names.vo)}
    if previewed != {proposal.key: proposal for proposal in proposals}:
        return None
    return PreviewCounts(preview.moved, preview.jobs, preview.run)


def _refusals_of(change: LimitedChange, counted: PreviewCounts | None, code: str, now: datetime) -> list[RefusedChange]:
    return [
        RefusedChange(
            refused_at=now,
            editor=change.editor,
            reason=change.reason,
            attempt=change.attempt,
            key=proposal.key,
            vo=proposal.vo,
            value=proposal.value,
            share=change.share,
            code=code,
            run=None if counted is None else counted.run,
            jobs_moved=None if counted is None else _expected_moves(counted, change.share),
            jobs=None if counted is None else counted.jobs,
            most_moved=change.most or 0,
        )
        for proposal in change.proposals
    ]


def _expected_moves(counted: PreviewCounts, share: float) -> int:
    return round(share * counted.moved)
