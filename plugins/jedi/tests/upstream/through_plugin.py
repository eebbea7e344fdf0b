"""PanDA's brokers and the plug-in's on the same grid, asked as JEDI asks them."""

from __future__ import annotations

from typing import Any

import plugged
from gridbroker_jedi.service import BrokerService
from panda.site import PandaSite

from upstream.one_grid import Decisions, Key, compared, theirs
from upstream.run import Counted


def compare_plugin(site: PandaSite, kind: str, service: BrokerService, seed: int) -> Counted:
    """PanDA and our plug-in on one grid."""
    return compared(theirs(site, kind), _of_plugin(site, kind, service), kind, seed)


def _of_plugin(site: PandaSite, kind: str, service: BrokerService) -> Decisions:
    """Candidates of the plug-in: those in JEDI's own objects where it fills them in.

    Raises:
        RuntimeError: the plug-in fell back to PanDA's own broker.
    """
    if kind == "production_task":
        rows = site.rows("SELECT jeditaskid FROM doma_panda.jedi_tasks WHERE status = 'assigning' ORDER BY 1")
        # one at a time, as PanDA is asked: a task that was placed weighs on the next
        decided = [one.decision for (task,) in rows for one, _ in service.tasks("atlas", [task], 0)]
        return {(one.jeditaskid, None, 0): _told(one.candidates) for one in decided}
    weights_by_chunk: dict[Key, dict[str, Any]] = {}
    for (task,) in site.rows("SELECT jeditaskid FROM doma_panda.jedi_tasks ORDER BY 1"):
        for spec, cloud, chunk in plugged.chunks(site, task):
            broker = plugged.broker_for(site, spec)
            broker.doBrokerage(spec, cloud, chunk, None)
            if broker._panda is not None:
                raise RuntimeError(f"task {task} was left to PanDA's own broker: {spec.errorDialog}")
            key = (task, chunk.masterDataset.datasetID, chunk.ramCount or 0)
            weights_by_chunk[key] = _told([_Named(name, one.weight) for name, one in chunk.siteCandidates.items()])
    return weights_by_chunk


class _Named:
    def __init__(self, name: str, weight: float) -> None:
        self.name, self.weight = name, weight


def _told(candidates: Any) -> dict[str, Any]:
    """The candidates as the service tells them; the plug-in gives no rules."""
    listed = [{"name": one.name, "weight": one.weight} for one in candidates]
    return {"outcome": "brokered", "candidates": listed, "rejected": {}, "reason": ""}
