"""PanDA's brokers and ours on the same grid: which decisions are equal."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from panda.decisions import Decided, decide_jobs, decide_tasks
from panda.installation import CLOCK

from agents.service import cycle, registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.process import ProcessSettings
from broker.store.connection.database import Database

Key = tuple[int, int | None, int | None]


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


def compare(site: Any, kind: str, profile: str) -> Comparison:
    """Both sides on one grid."""
    mine = ours(site.url, kind, profile)
    result = Comparison()
    for one in theirs(site, kind):
        key: Key = (one.task, one.dataset, one.ramcount or 0)
        own = mine.get(key if one.dataset is not None else (one.task, None, 0))
        weights = {} if own is None else {item["name"]: item["weight"] for item in own["candidates"]}
        if own is not None and own["outcome"] != "brokered":
            weights = {}
        result.results += 1
        result.brokered += bool(one.candidates)
        if _same(one.candidates, weights):
            result.equal += 1
        else:
            reasons = {} if own is None else {"": own["reason"], **own["rejected"]}
            result.differences.append((key, one.candidates, weights, reasons))
    return result


def _same(one: dict[str, float], other: dict[str, float]) -> bool:
    return one.keys() == other.keys() and all(
        math.isclose(weight, other[name], rel_tol=1e-9, abs_tol=1e-12) for name, weight in one.items()
    )
