"""Work that ours placed itself: through the plug-in inside JEDI, or by an agent that wrote the rows. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from broker.alongside.answers.shadow_decisions import DecisionsByChunk
from broker.alongside.answers.shadow_models import Placer
from broker.alongside.statements.own_placements import DecidingCycle
from broker.alongside.statements.panda_placements import Chunk, Placement, Wait
from broker.domain.decisions import StoredDecision
from broker.domain.rejection_counts import unified_of

TASK_BROKERAGE = "production_task"
#: JEDI makes the jobs of a chunk, or lets its task wait, within its limit for a thread (10 min) after the call.
PLUGIN_WITHIN = timedelta(minutes=10)
#: An agent writes its jobs with the instant of the decision; PanDA's columns keep whole seconds.
SAME_INSTANT = timedelta(seconds=1)

PluginDecisions = Mapping[tuple[str, Chunk], Sequence[datetime]]


class PlacementOwner:
    """Tells work placed by ours from work placed by PanDA.

    Args:
        by_plugin: when the plug-in decided, oldest first, by brokerage and chunk.
        cycles: of agents, by the number of the run.
    """

    def __init__(self, by_plugin: PluginDecisions, cycles: Mapping[int, DecidingCycle]) -> None:
        self._by_plugin, self._cycles = by_plugin, cycles
        self._of_task: dict[tuple[str, int, int | None], list[datetime]] = {}
        for (brokerage, (task, dataset, _)), moments in by_plugin.items():
            for key in ((brokerage, task, dataset), (brokerage, task, None)):
                self._of_task.setdefault(key, []).extend(moments)
        for moments in self._of_task.values():
            moments.sort()

    def placed(self, one: Placement, decided: DecisionsByChunk) -> Placer | None:
        """Which part of ours placed jobs or a task; None: PanDA did."""
        if one.brokerage == TASK_BROKERAGE:
            return self._assigned(one, decided)
        decision_times = self._of_task.get((one.brokerage, one.jeditaskid, one.datasetid), ())
        if _just_before(decision_times, one.first_at, one.at):
            return "plugin"
        written = [stored for stored in decided.of_chunk(one.brokerage, one.chunk) if self._wrote(stored)]
        return "agent" if any(_is_made_by(one, stored) for stored in written) else None

    def waited(self, one: Wait) -> bool:
        """Whether a task waits because the plug-in found nothing for one of its chunks."""
        return _just_before(self._of_task.get((one.brokerage, one.jeditaskid, None), ()), one.at, one.at)

    def _assigned(self, placement: Placement, decided: DecisionsByChunk) -> Placer | None:
        """Ours placed a task if our last decision on a nucleus gave the one that it has, and was carried out."""
        assignments = [
            stored for stored in decided.of_chunk(placement.brokerage, placement.chunk) if stored.record.assigned
        ]
        if not assignments or placement.queue not in assignments[-1].record.assigned:
            return None
        if assignments[-1].origin.agent_run is None or (placement.brokerage, placement.chunk) in self._by_plugin:
            return "plugin"
        return "agent" if self._wrote(assignments[-1]) else None

    def _wrote(self, stored: StoredDecision) -> bool:
        """Whether a decision is of a cycle that wrote rows; cycles not on record did, as before this release."""
        run = stored.origin.agent_run
        if run is None or not stored.record.assigned:
            return False
        cycle = self._cycles.get(run)
        return cycle is None or cycle.only_recorded is not True


def _just_before(moments: Sequence[datetime], first: datetime, last: datetime) -> bool:
    count = bisect_right(moments, last + SAME_INSTANT)
    return count > 0 and moments[count - 1] >= first - PLUGIN_WITHIN


def _is_made_by(placement: Placement, stored: StoredDecision) -> bool:
    decided_at = stored.origin.decided_at
    queues = {unified_of(name) for name in stored.record.assigned}
    return (
        unified_of(placement.queue) in queues
        and placement.first_at - SAME_INSTANT <= decided_at <= placement.at + SAME_INSTANT
    )
