"""Nuclei: their state and space, what was drawn there, and what rejected them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Literal

import numpy as np

from broker.brokerages.registry import brokerage as brokerage_of
from broker.domain.decisions import StoredDecision
from broker.domain.rejection_counts import QueueCount
from broker.grid.answers.grid import (
    DayCount,
    day_counts,
    figure,
    last_snapshot,
    link_lines,
    totals_about,
    tuning_in_force,
)
from broker.grid.answers.models import Nuclei, NucleusAnswer, NucleusLine, TaskAtNucleus
from broker.grid.answers.queue import rejected_there
from broker.history.answers.stored_states import ChunkState, last_states, looked_at, rejected_at
from broker.snapshot.snapshot import Snapshot
from broker.store.query_context import Asking, NothingFound, known_name

NUCLEUS = "nucleus"
MOST_TASKS = 50
MOST_LINKS = 50


def nuclei(asking: Asking) -> Nuclei:
    """All nuclei and satellites, by name."""
    return nuclei_of(last_snapshot(asking), _counted(asking), asking.now)


def nuclei_of(snapshot: Snapshot | None, counts: Mapping[str, DayCount], now: datetime) -> Nuclei:
    """The list, of a snapshot and what was counted of each nucleus. Pure."""
    if snapshot is None:
        return Nuclei(now=now, snapshot=None, taken_at=None, nuclei=())
    lines = tuple(_line(snapshot, at, counts) for at in range(len(snapshot.nuclei)))
    return Nuclei(now=now, snapshot=snapshot.id, taken_at=snapshot.taken_at, nuclei=lines)


def nucleus_answer(asking: Asking, name: str) -> NucleusAnswer:
    """One nucleus: what was drawn there with which probability, and what rejected it.

    Raises:
        NothingFound: there is no such nucleus; the nearest names are said.
    """
    snapshot = last_snapshot(asking)
    if snapshot is None:
        raise NothingFound(
            "nucleus", name, "broker.snapshots", remedy="run a brokerage first: broker run production_task"
        )
    nucleus = known_name("nucleus", name, [str(one) for one in snapshot.nuclei.name], "site")
    at = int(np.flatnonzero(snapshot.nuclei.name == nucleus)[0])
    counts, states = _counted(asking, nucleus), _states(asking)
    waiting = rejected_at([one for one in states if one.outcome != "brokered"], nucleus)
    links = sorted(
        link_lines(snapshot, tuning_in_force(asking), None, nucleus), key=lambda one: -(one.queued_files or 0.0)
    )
    of_site = snapshot.queues.unified_name[snapshot.queues.nucleus == at]
    return NucleusAnswer(
        now=asking.now,
        snapshot=snapshot.id,
        taken_at=snapshot.taken_at,
        line=_line(snapshot, at, counts),
        rejected=rejected_there(counts.get(nucleus, DayCount()), waiting),
        tasks=tuple(_tasks(nucleus, states)),
        links=tuple(links[:MOST_LINKS]),
        queues=tuple(sorted({str(one) for one in of_site})),
    )


def _states(asking: Asking) -> list[ChunkState]:
    found = last_states(asking.connection, asking.now)
    return [one for name, some in found.items() if brokerage_of(name).candidate == NUCLEUS for one in some.newest]


def _counted(asking: Asking, nucleus: str | None = None) -> dict[str, DayCount]:
    found: list[QueueCount] = [one for some in totals_about(asking, NUCLEUS, nucleus).values() for one in some]
    return day_counts(found)


def _line(snapshot: Snapshot, at: int, counts: Mapping[str, DayCount]) -> NucleusLine:
    nuclei, name = snapshot.nuclei, str(snapshot.nuclei.name[at])
    counted = counts.get(name, DayCount())
    storage = int(nuclei.output_storage[at])
    role: Literal["nucleus", "satellite"] = "nucleus" if nuclei.is_nucleus[at] else "satellite"
    return NucleusLine(
        nucleus=name,
        role=role,
        state=str(nuclei.state[at] or ""),
        output_endpoint=None if storage < 0 else str(snapshot.storages.name[storage]),
        free_gb=None if storage < 0 else figure(snapshot.storages.space_free_gb[storage]),
        total_gb=None if storage < 0 else figure(snapshot.storages.space_total_gb[storage]),
        collected=counted.placed,
        candidate=counted.chosen,
        considered=counted.considered,
    )


def _tasks(nucleus: str, states: Sequence[ChunkState]) -> Iterator[TaskAtNucleus]:
    """The last tasks for which the nucleus was a candidate, with the probability that it is drawn."""
    brokered = [state for state in states if state.outcome == "brokered"]
    some = sorted(looked_at(brokered), key=lambda state: -state.decision)
    # the candidates of a decision are made when they are asked for
    for state in islice((state for state in some if nucleus in state.chosen), MOST_TASKS):
        stored = state.decided.of(state.decision)
        if stored is not None:
            yield task_at_nucleus(stored, nucleus)


def task_at_nucleus(stored: StoredDecision, nucleus: str) -> TaskAtNucleus:
    """A decision for which a nucleus was a candidate. Pure."""
    candidates = stored.record.decision.candidates
    weight = next(one.weight for one in candidates if one.name == nucleus)
    total = sum(one.weight for one in candidates)
    return TaskAtNucleus(
        jeditaskid=stored.record.decision.jeditaskid,
        decided_at=stored.origin.decided_at,
        drawn=nucleus in stored.record.assigned,
        weight=weight,
        probability=weight / total if total > 0 else 0.0,
    )
