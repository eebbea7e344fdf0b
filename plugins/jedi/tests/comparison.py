"""PanDA's brokers and ours on the same grid: which decisions are equal."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import plugged
from gridbroker_jedi.service import BrokerService
from panda.decisions import Decided, decide_jobs, decide_tasks
from panda.installation import CLOCK

from agents.service import cycle, registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.process import ProcessSettings
from broker.store.connection.database import Database

Key = tuple[int, int | None, int | None]
#: Weight by candidate, of each decision.
Weights = dict[Key, dict[str, float]]


@dataclass
class Comparison:
    """How many decisions of both sides are equal.

    Attributes:
        results: decisions of PanDA's.
        equal: those where ours has the same outcome, candidates and weights.
        brokered: those of PanDA's with candidates.
        differences: the others, with both sides.
    """

    results: int = 0
    equal: int = 0
    brokered: int = 0
    differences: list[tuple[Key, dict[str, float], dict[str, float], dict[str, str]]] = field(default_factory=list)

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(
            self.results + other.results,
            self.equal + other.equal,
            self.brokered + other.brokered,
            self.differences + other.differences,
        )

    @property
    def share(self) -> float:
        """Equal ones among all."""
        return self.equal / self.results if self.results else math.nan

    def reasons(self) -> Counter[str]:
        """For queues that only PanDA takes, the rules of ours that refused them."""
        return Counter(
            ours.get(name, "not_a_candidate")
            for _, theirs, mine, ours in self.differences
            for name in theirs.keys() - mine.keys()
        )


def theirs(site: Any, kind: str) -> list[Decided]:
    """What PanDA decides."""
    if kind == "production_task":
        return decide_tasks(site.buffer, site.ddm)
    return decide_jobs(site.buffer, site.ddm, analysis=kind == "analysis_job")


def ours(url: str, kind: str, profile: str) -> dict[Key, dict[str, Any]]:
    """What our agent decides, every task on the same grid."""
    from datetime import UTC

    found: list[dict[str, Any]] = []
    request = CycleRequest(None, True, True, found.append, by_hand=True)
    agent = registry.make(kind, {}, ProcessSettings(profile=profile))
    with Database(url) as database:
        record = cycle.run_cycle(agent, CycleContext(database, CLOCK.now.replace(tzinfo=UTC), 0, 600.0, request))
    assert record.outcome == "done", record
    return {(one["jeditaskid"], one["datasetid"], one["ramcount"] or 0): one for one in found}


def of_plugin(site: Any, kind: str, service: BrokerService) -> Weights:
    """Candidates of the plug-in: those in JEDI's own objects where it fills them in."""
    if kind == "production_task":
        rows = site.rows("SELECT jeditaskid FROM doma_panda.jedi_tasks WHERE status = 'assigning' ORDER BY 1")
        # one at a time, as PanDA is asked: a task that was placed weighs on the next
        decided = [one.decision for (task,) in rows for one, _ in service.tasks("atlas", [task], 0)]
        return {
            (one.jeditaskid, None, 0): {candidate.name: candidate.weight for candidate in one.candidates}
            for one in decided
        }
    found: Weights = {}
    for (task,) in site.rows("SELECT jeditaskid FROM doma_panda.jedi_tasks ORDER BY 1"):
        for spec, cloud, chunk in plugged.chunks(site, task):
            broker = plugged.broker_for(site, spec)
            broker.doBrokerage(spec, cloud, chunk, None)
            assert broker._panda is None, spec.errorDialog
            key = (task, chunk.masterDataset.datasetID, chunk.ramCount or 0)
            found[key] = {name: one.weight for name, one in chunk.siteCandidates.items()}
    return found


def compare(site: Any, kind: str, profile: str) -> Comparison:
    """PanDA and our agent on one grid, with the reasons of ours."""
    stated = ours(site.url, kind, profile)
    reasons = {key: {"": one["reason"], **one["rejected"]} for key, one in stated.items()}
    weights = {
        key: {item["name"]: item["weight"] for item in one["candidates"]} if one["outcome"] == "brokered" else {}
        for key, one in stated.items()
    }
    return compared(theirs(site, kind), weights, reasons)


def compare_plugin(site: Any, kind: str, service: BrokerService) -> Comparison:
    """PanDA and our plug-in on one grid."""
    return compared(theirs(site, kind), of_plugin(site, kind, service), {})


def compared(decided: list[Decided], mine: Weights, reasons: dict[Key, dict[str, str]]) -> Comparison:
    """Both sides, decision by decision."""
    result = Comparison()
    for one in decided:
        key: Key = (one.task, one.dataset, one.ramcount or 0) if one.dataset is not None else (one.task, None, 0)
        weights = mine.get(key, {})
        result.results += 1
        result.brokered += bool(one.candidates)
        if _same(one.candidates, weights):
            result.equal += 1
        else:
            result.differences.append((key, one.candidates, weights, reasons.get(key, {})))
    return result


def _same(one: dict[str, float], other: dict[str, float]) -> bool:
    return one.keys() == other.keys() and all(
        math.isclose(weight, other[name], rel_tol=1e-9, abs_tol=1e-12) for name, weight in one.items()
    )
