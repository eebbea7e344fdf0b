"""The comparison of the broker's decisions with JEDI's: where both agree, and which rule made each disagreement.

It counts jobs as a whole, by label, and by the profile, version and tuning of the decisions compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from broker.alongside.answers.shadow_consequences import Data, consequences, data_of
from broker.alongside.answers.shadow_decisions import (
    NO_DATASET,
    NO_DECISION,
    TOO_OLD,
    DecisionsByChunk,
    chances,
    criterion,
    refusal,
)
from broker.alongside.answers.shadow_models import DecidedBy, Placer, Shadow
from broker.alongside.answers.shadow_own import TASK_BROKERAGE, PlacementOwner
from broker.alongside.answers.shadow_tally import Tally
from broker.alongside.model.agreement import CONFIDENCE
from broker.alongside.statements import plugin_calls
from broker.alongside.statements.own_placements import LONGEST, DecidingCycle, deciding_cycles, plugin_decisions
from broker.alongside.statements.panda_placements import (
    Placement,
    Undecided,
    Wait,
    read_input,
    read_nuclei,
    read_placements,
    read_waits,
    tasks_of,
)
from broker.alongside.statements.queue_records import local_parts, queue_records
from broker.domain.decisions import StoredDecision
from broker.history.statements.history_reads import decisions_between
from broker.store.query_context import QueryContext


class Deciders:
    """Counts compared jobs and waits by the profile, version and tuning that decided."""

    def __init__(self) -> None:
        self._cycles: dict[int, DecidingCycle] = {}
        self._lines: dict[tuple[str, str, str, int], DecidedBy] = {}

    def know(self, cycles: Mapping[int, DecidingCycle]) -> None:
        """Add cycles that decisions may come from."""
        self._cycles |= cycles

    def add(self, one: Placement | Wait, stored: StoredDecision) -> None:
        """Count a placement or wait that was compared with a decision."""
        origin = stored.origin
        cycle = None if origin.agent_run is None else self._cycles.get(origin.agent_run)
        profile = None if cycle is None else cycle.profile
        key = (one.brokerage, profile or "", origin.engine, origin.tuning)
        decided_at = origin.decided_at
        known = self._lines.get(key) or DecidedBy(
            brokerage=one.brokerage,
            profile=profile,
            engine=origin.engine,
            tuning=origin.tuning,
            jobs=0,
            waits=0,
            first_at=decided_at,
            last_at=decided_at,
        )
        more = {"waits": known.waits + 1} if isinstance(one, Wait) else {"jobs": known.jobs + one.jobs}
        times = {"first_at": min(known.first_at, decided_at), "last_at": max(known.last_at, decided_at)}
        self._lines[key] = known.model_copy(update={**more, **times})

    def lines(self) -> tuple[DecidedBy, ...]:
        """One line for each, by brokerage and time."""
        lines = self._lines.values()
        return tuple(sorted(lines, key=lambda one: (one.brokerage, one.first_at, one.engine, one.tuning)))

    def notes(self) -> list[str]:
        """Remarks on figures summed over several profiles or versions, and on profiles that are not on record."""
        lines, notes = self.lines(), []
        for brokerage in dict.fromkeys(one.brokerage for one in lines):
            own = [one for one in lines if one.brokerage == brokerage]
            profiles = sorted({one.profile or "not on record" for one in own})
            engines = sorted({one.engine for one in own})
            if len(profiles) > 1:
                notes.append(f"{brokerage}: decisions of several profiles are added up: {', '.join(profiles)}")
            elif profiles == ["not on record"]:
                notes.append(f"{brokerage}: the profile that decided is not on record")
            if len(engines) > 1:
                notes.append(f"{brokerage}: decisions of several versions are added up: {', '.join(engines)}")
        return notes


#: Number of tasks whose decisions are in memory at once.
TASKS_AT_ONCE = 500
#: prodsourcelabel where PanDA has none.
NO_LABEL = ""


@dataclass
class ShadowComparison:
    """The counts, as a whole and by label; ``deciders``: which profile, version and tuning decided.

    ``plugin_recorded``: decisions of the plug-in that are on record.
    """

    whole: Tally = field(default_factory=Tally)
    by_label: dict[str, Tally] = field(default_factory=dict)
    deciders: Deciders = field(default_factory=Deciders)
    plugin_recorded: int = 0

    def of(self, one: Placement | Wait | Undecided) -> tuple[Tally, Tally]:
        """The tallies that count an item."""
        return self.whole, self.by_label.setdefault(one.label or NO_LABEL, Tally())


def add_placements(
    compared: ShadowComparison, placements: Sequence[Placement], decided: DecisionsByChunk, own: PlacementOwner
) -> None:
    """Count what PanDA placed. Pure."""
    for placement in placements:
        tallies, by = compared.of(placement), own.placed(placement, decided)
        if by is not None:
            _count_own(tallies, placement, by)
            continue
        in_force = decided.at(placement.brokerage, placement.chunk, placement.at)
        for tally in tallies:
            tally.placed(placement)
            if in_force.stored is None:
                lost = placement.datasetid is None and placement.brokerage != TASK_BROKERAGE
                tally.uncompared(placement, NO_DATASET if lost else in_force.reason)
            else:
                decision = in_force.stored.record.decision
                tally.compared(placement, refusal(decision, placement.queue), chances(decision))
        if in_force.stored is not None:
            compared.deciders.add(placement, in_force.stored)


def add_undecided(compared: ShadowComparison, undecided: Sequence[Undecided]) -> None:
    """Count the jobs of tasks about which ours decided nothing. Pure."""
    for jobs in undecided:
        for tally in compared.of(jobs):
            tally.placed(jobs)
            tally.uncompared(jobs, NO_DECISION if jobs.has_dataset else NO_DATASET)


def add_waits(
    compared: ShadowComparison, waits: Sequence[Wait], decided: DecisionsByChunk, own: PlacementOwner
) -> None:
    """Count the times that PanDA let a task wait. Pure."""
    for wait in waits:
        tallies = compared.of(wait)
        if own.waited(wait):
            _count_own(tallies, wait, "plugin")
            continue
        in_force = decided.of_task(wait.brokerage, wait.jeditaskid, wait.at)
        usable = [decision.stored for decision in in_force if decision.stored is not None]
        for tally in tallies:
            if not usable:
                old = any(decision.reason == TOO_OLD for decision in in_force)
                tally.uncompared(wait, TOO_OLD if old else NO_DECISION)
                continue
            ours = any(stored.record.decision.outcome == "brokered" for stored in usable)
            tally.waited(wait, criterion(wait.dialog) if ours else None)
        if usable:
            compared.deciders.add(wait, usable[-1])


def _count_own(tallies: tuple[Tally, Tally], item: Placement | Wait, by: Placer) -> None:
    for tally in tallies:
        tally.placed_by_ours(item, by)


def compare(query: QueryContext, since: datetime, max_age: timedelta, brokerage: str | None = None) -> ShadowComparison:
    """Compare our decisions with JEDI's, and count; for the arguments see :func:`shadow`."""
    connection, catalogue, until = query.connection, query.catalogue, query.now
    first = since - max_age - LONGEST
    placed, undecided = read_placements(connection, catalogue, since, until, first - LONGEST)
    placed += read_nuclei(connection, catalogue, since, until)
    placements = [one for one in placed if brokerage in (None, one.brokerage)]
    waits = [one for one in read_waits(connection, catalogue, since, until) if brokerage in (None, one.brokerage)]
    by_plugin = plugin_decisions(connection, first, until)
    compared = ShadowComparison(plugin_recorded=sum(map(len, by_plugin.values())))
    add_undecided(compared, [one for one in undecided if brokerage in (None, one.brokerage)])
    tasks = tasks_of(placements, waits)
    for start in range(0, len(tasks), TASKS_AT_ONCE):
        batch = set(tasks[start : start + TASKS_AT_ONCE])
        stored = decisions_between(connection, sorted(batch), first, until)
        runs = {one.origin.agent_run for one in stored} - {None}
        cycles = deciding_cycles(connection, sorted(run for run in runs if run is not None))
        compared.deciders.know(cycles)
        decided, own = DecisionsByChunk(stored, max_age), PlacementOwner(by_plugin, cycles)
        add_placements(compared, [one for one in placements if one.jeditaskid in batch], decided, own)
        add_waits(compared, [one for one in waits if one.jeditaskid in batch], decided, own)
    return compared


def shadow(
    query: QueryContext,
    since: datetime,
    max_age: timedelta,
    brokerage: str | None = None,
    confidence: float = CONFIDENCE,
) -> Shadow:
    """Compare our decisions with JEDI's from ``since`` on, up to the instant of the query.

    Args:
        query: the database and the instant.
        since: start (aware).
        max_age: how long after the last cycle that reached it a decision is compared.
        brokerage: only this one.
        confidence: of the intervals, between 0 and 1.
    """
    return shadow_of(query, since, max_age, compare(query, since, max_age, brokerage), confidence)


def shadow_of(
    query: QueryContext, since: datetime, max_age: timedelta, compared: ShadowComparison, confidence: float = CONFIDENCE
) -> Shadow:
    """Build the answer from the counts; arguments as for :func:`shadow`."""
    whole, by_label = compared.whole, sorted(compared.by_label.items())
    records = queue_records(query.connection, query.catalogue, since, query.now)
    return Shadow(
        since=since,
        until=query.now,
        max_age_s=max_age.total_seconds(),
        confidence=confidence,
        brokerages=whole.brokerages(confidence),
        labels=tuple(line for label, one in by_label for line in one.brokerages(confidence, label)),
        shares=whole.shares(confidence),
        hours=whole.hours(confidence),
        rules=whole.disagreements(),
        queues=whole.queues(),
        uncompared=whole.left_out(),
        placed_by_ours=whole.own(),
        decided_by=compared.deciders.lines(),
        by_chance=(*whole.by_chance(), *(line for label, one in by_label for line in one.by_chance(label))),
        consequences=consequences(whole, records, _data(query, since, whole)),
        share_consequences=whole.share_consequences(),
        notes=_notes(query, since, compared),
    )


def _data(query: QueryContext, since: datetime, whole: Tally) -> Data:
    """The locations of the input of the compared jobs."""
    if not whole.placements:
        return data_of((), {})
    read = read_input(query.connection, query.catalogue, since, query.now)
    names = sorted({one.dataset for one in read if one.dataset})
    near: Mapping[str, Mapping[str, float]] = local_parts(query.connection, query.catalogue, names) if names else {}
    return data_of(read, near)


def _notes(query: QueryContext, since: datetime, compared: ShadowComparison) -> tuple[str, ...]:
    """Remarks on why the numbers mean less than they seem to."""
    notes = list(compared.deciders.notes())
    calls = plugin_calls.since(query.connection, since)
    decided = sum(one.calls for one in calls if one.call.outcome == "decided" and one.hour <= query.now)
    recorded = compared.plugin_recorded
    if decided > recorded:
        notes.append(
            f"the plug-in decided {decided:,} times and recorded {recorded:,}: what it placed without a record counts "
            "as PanDA's; set record = true in [gridbroker] of panda_jedi.cfg"
        )
    return tuple(notes)
