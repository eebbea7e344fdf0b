"""Values tried on a share of the tasks: start, stop, and what came of them, as typed answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from broker.brokerages.registry import offered
from broker.domain.queues import TIGHTENING_KEYS
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.gdpconfig.proposals import Canary, Proposal, check_canary, proposed
from broker.gdpconfig.publish import vo_to_edit
from broker.store.connection.database import Database
from broker.tuning.answers.values import typed_value
from broker.tuning.statements import canaries
from broker.tuning.statements.canaries import OutcomeOfGroup
from broker.tuning.statements.gdpconfig_rows import Json, TuningStore

NOT_SPLIT = (*TIGHTENING_KEYS, "TW_DONE_JOB_STAT")
"""Keys that are read once for all tasks of a cycle."""
MOST = 100


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
        listed = canaries.newest(connection, MOST)
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
