"""Nuclei: their state and space, what was drawn there, and what rejected them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal

import numpy as np

from broker.app.answers.asking import Asking, NothingFound, known_name
from broker.app.answers.grid import figure, last_snapshot, link_lines, tuning_in_force
from broker.app.answers.grid_models import Nuclei, NucleusAnswer, NucleusLine, RejectedThere, TaskAtNucleus
from broker.app.answers.stored_states import ChunkState, chunk_states
from broker.brokerages.registry import brokerage as brokerage_of
from broker.domain.decision_records import StoredDecision
from broker.snapshot.snapshot import Snapshot
from broker.store.decisions.stored_cycles import NoSuchDecision, one_decision

NUCLEUS = "nucleus"
SUCH_AS = 5
MOST_TASKS = 50
MOST_LINKS = 50


def nuclei(asking: Asking) -> Nuclei:
    """All nuclei and satellites, by name."""
    return nuclei_of(last_snapshot(asking), _states(asking), asking.now)


def nuclei_of(snapshot: Snapshot | None, states: Sequence[ChunkState], now: datetime) -> Nuclei:
    """The list, of a snapshot and the states of tasks. Pure."""
    if snapshot is None:
        return Nuclei(now=now, snapshot=None, taken_at=None, nuclei=())
    lines = tuple(_line(snapshot, at, states) for at in range(len(snapshot.nuclei)))
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
    states = _states(asking)
    rejected: defaultdict[str, list[ChunkState]] = defaultdict(list)
    for state in states:
        if nucleus in state.counts.by_queue:
            rejected[state.counts.by_queue[nucleus]].append(state)
    lines = [_rejected(code, found) for code, found in rejected.items()]
    links = sorted(
        link_lines(snapshot, tuning_in_force(asking), None, nucleus), key=lambda one: -(one.queued_files or 0.0)
    )
    of_site = snapshot.queues.unified_name[snapshot.queues.nucleus == at]
    return NucleusAnswer(
        now=asking.now,
        snapshot=snapshot.id,
        taken_at=snapshot.taken_at,
        line=_line(snapshot, at, states),
        rejected=tuple(sorted(lines, key=lambda line: (-line.chunks, line.code))),
        tasks=tuple(_tasks(asking, nucleus, states)),
        links=tuple(links[:MOST_LINKS]),
        queues=tuple(sorted({str(one) for one in of_site})),
    )


def _states(asking: Asking) -> list[ChunkState]:
    found = chunk_states(asking.connection, asking.now)
    return [state for state in found if brokerage_of(state.brokerage).candidate == NUCLEUS]


def _line(snapshot: Snapshot, at: int, states: Iterable[ChunkState]) -> NucleusLine:
    nuclei, name = snapshot.nuclei, str(snapshot.nuclei.name[at])
    storage = int(nuclei.output_storage[at])
    role: Literal["nucleus", "satellite"] = "nucleus" if nuclei.is_nucleus[at] else "satellite"
    considered = [state for state in states if name in state.counts.by_queue or name in state.chosen]
    return NucleusLine(
        nucleus=name,
        role=role,
        state=str(nuclei.state[at] or ""),
        output_endpoint=None if storage < 0 else str(snapshot.storages.name[storage]),
        free_gb=None if storage < 0 else figure(snapshot.storages.space_free_gb[storage]),
        total_gb=None if storage < 0 else figure(snapshot.storages.space_total_gb[storage]),
        collected=sum(name in state.assigned for state in considered),
        candidate=sum(name in state.chosen for state in considered),
        considered=len(considered),
    )


def _rejected(code: str, found: Sequence[ChunkState]) -> RejectedThere:
    tasks = sorted({state.jeditaskid for state in found})
    times = sum(state.times_seen for state in found)
    return RejectedThere(
        code=code, chunks=len(found), chunks_24h=times, tasks=len(tasks), such_as=tuple(tasks[:SUCH_AS])
    )


def _tasks(asking: Asking, nucleus: str, states: Iterable[ChunkState]) -> Iterator[TaskAtNucleus]:
    """The last tasks for which the nucleus was a candidate, with the probability that it is drawn."""
    newest = sorted((state for state in states if nucleus in state.chosen), key=lambda state: -state.decision)
    for state in newest[:MOST_TASKS]:
        try:
            yield task_at_nucleus(one_decision(asking.connection, state.decision), nucleus)
        except NoSuchDecision:
            continue


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
