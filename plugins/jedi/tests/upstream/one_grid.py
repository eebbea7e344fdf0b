"""PanDA's brokers and ours on the same grid, decision by decision."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any

from panda.decisions import Decided, decide_jobs, decide_tasks
from panda.generic import decide_generic
from panda.installation import CLOCK
from panda.site import PandaSite

from agents.service import cycle, registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from broker.store.connection.database import Database
from upstream.differences import Difference, causes, equal
from upstream.run import Counted

#: Task, master dataset, memory of the files in MB.
Key = tuple[int, int | None, int]
#: Decisions of ours, as the service tells them.
Decisions = Mapping[Key, Mapping[str, Any]]


def compare_site(site: PandaSite, kind: str, profile: str, seed: int) -> Counted:
    """PanDA and our agent on one grid."""
    return compared(theirs(site, kind), ours(site.url, kind, profile), kind, seed)


def compared(decided: list[Decided], mine: Decisions, kind: str, seed: int) -> Counted:
    """Both sides, decision by decision."""
    result = Counted(grids=1)
    for one in decided:
        key: Key = (one.task, one.dataset, 0 if one.dataset is None else one.ramcount or 0)
        own = mine.get(key)
        weights = _weights(own)
        result.results += 1
        result.brokered += bool(one.candidates)
        if not equal(one.candidates, weights):
            why = causes(one, weights, own)
            result.differences.append(Difference(kind, seed, *key, one.candidates, weights, why))
    return result


def theirs(site: PandaSite, kind: str) -> list[Decided]:
    """What PanDA decides."""
    if kind == "production_task":
        return decide_tasks(site.buffer, site.ddm)
    if kind == "generic_job":
        return decide_generic(site.buffer, site.ddm)
    return decide_jobs(site.buffer, site.ddm, analysis=kind == "analysis_job")


def ours(url: str, kind: str, profile: str) -> Decisions:
    """What our agent decides, every task on the same grid.

    Raises:
        RuntimeError: the cycle was not done.
    """
    decisions: list[dict[str, Any]] = []
    request = CycleRequest(None, True, True, decisions.append, by_hand=True)
    agent = registry.make(kind, {}, ProcessSettings(profile=profile))
    with Database(url) as database:
        record = cycle.run_cycle(agent, CycleContext(database, CLOCK.now.replace(tzinfo=UTC), 0, 600.0, request))
    if record.outcome != "done":
        raise RuntimeError(f"the cycle of {kind} in profile {profile} was not done: {record}")
    return {(one["jeditaskid"], one["datasetid"], one["ramcount"] or 0): one for one in decisions}


def _weights(own: Mapping[str, Any] | None) -> dict[str, float]:
    if own is None or own["outcome"] != "brokered":
        return {}
    return {item["name"]: item["weight"] for item in own["candidates"]}
