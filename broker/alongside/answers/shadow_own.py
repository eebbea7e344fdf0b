"""What ours placed itself: through the plug-in inside JEDI, or by an agent that wrote the rows. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from broker.alongside.answers.shadow_decisions import Decided
from broker.alongside.answers.shadow_models import Placer
from broker.alongside.statements.own_placements import DecidingCycle
from broker.alongside.statements.panda_placements import Chunk, Placement, Wait
from broker.domain.decisions import StoredDecision
from broker.domain.rejection_counts import unified_of

TASK_BROKERAGE = "production_task"
#: JEDI makes the jobs of a chunk, or lets its task wait, within its limit for a thread (10 min) of having asked.
PLUGIN_WITHIN = timedelta(minutes=10)
#: An agent writes its jobs with the instant of the decision; PanDA's columns keep whole seconds.
SAME_INSTANT = timedelta(seconds=1)

PluginDecisions = Mapping[tuple[str, Chunk], Sequence[datetime]]


class Own:
    """Tells what ours placed from what PanDA did.

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

    def placed(self, one: Placement, decided: Decided) -> Placer | None:
        """Who of ours placed jobs or a task; None: PanDA."""
        if one.brokerage == TASK_BROKERAGE:
            return self._assigned(one, decided)
        asked = self._of_task.get((one.brokerage, one.jeditaskid, one.datasetid), ())
        if _just_before(asked, one.first_at, one.at):
            return "plugin"
        made = [known for known in decided.of_chunk(one.brokerage, one.chunk) if self._wrote(known)]
        return "agent" if any(_is_made_by(one, known) for known in made) else None

    def waited(self, one: Wait) -> bool:
        """Whether a task waits because the plug-in found nothing for one of its chunks."""
        return _just_before(self._of_task.get((one.brokerage, one.jeditaskid, None), ()), one.at, one.at)

    def _assigned(self, one: Placement, decided: Decided) -> Placer | None:
        """A task is ours where the last decision that gave a nucleus gave the one that it has, and was carried out."""
        gave = [known for known in decided.of_chunk(one.brokerage, one.chunk) if known.record.assigned]
        if not gave or one.queue not in gave[-1].record.assigned:
            return None
        if gave[-1].origin.agent_run is None or (one.brokerage, one.chunk) in self._by_plugin:
            return "plugin"
        return "agent" if self._wrote(gave[-1]) else None

    def _wrote(self, known: StoredDecision) -> bool:
        """Whether a decision is of a cycle that wrote rows; what is not on record did, as before this release."""
        run = known.origin.agent_run
        if run is None or not known.record.assigned:
            return False
        cycle = self._cycles.get(run)
        return cycle is None or cycle.only_recorded is not True


def _just_before(asked: Sequence[datetime], first: datetime, last: datetime) -> bool:
    at = bisect_right(asked, last + SAME_INSTANT)
    return at > 0 and asked[at - 1] >= first - PLUGIN_WITHIN


def _is_made_by(one: Placement, known: StoredDecision) -> bool:
    made = known.origin.decided_at
    there = {unified_of(name) for name in known.record.assigned}
    return unified_of(one.queue) in there and one.first_at - SAME_INSTANT <= made <= one.at + SAME_INSTANT
