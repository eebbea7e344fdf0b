"""Full chains go to bare nuclei, and stay where they began."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation, Value
from broker.domain.grid import NucleusTable
from broker.domain.queues import BARE_NONE, BARE_ONLY
from broker.domain.task_facts import TaskFacts
from broker.domain.task_work import AssigningTable
from broker.rules.contract import NucleusFilter, TuningView
from broker.rules.observing import flag

ONLY, REQUIRE = 1, 2
WORDS = {0: "none", 1: "only", 2: "require", 3: "capable"}
BARE_WORDS = {0: "none", 1: "only", 2: "allow"}


class FullChain(NucleusFilter):
    """Keeps for a task the nuclei that its ``fullChain`` (split rule ``FU``) and their ``bareNucleus`` allow.

    A task of a chain whose parent is on a bare nucleus must follow it. ``only`` needs a nucleus with bareNucleus=only,
    ``require`` a bare one, ``capable`` is as no full chain but for the parent. Nuclei with bareNucleus=only take
    nothing else. Source: Special Brokerage for ATLAS Full-chain.
    """

    name = "full_chain"
    code = "full_chain"
    title = "The nucleus takes such tasks, and is that of the chain"
    sources = ("queues",)
    provenance = "Special Brokerage for ATLAS Full-chain"

    def keep(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Bools:
        """(T, N)."""
        follows = facts.bound_to >= 0
        there = facts.bound_to == facts.position
        is_only, is_bare = nuclei.bare == BARE_ONLY, nuclei.bare != BARE_NONE
        normal = (tasks.full_chain != ONLY) & (tasks.full_chain != REQUIRE)
        by_kind = np.where(tasks.full_chain == ONLY, is_only, np.where(normal, ~is_only | (follows & there), is_bare))
        return np.asarray(by_kind & (there | ~follows))

    def observe(self, tasks: AssigningTable, nuclei: NucleusTable, facts: TaskFacts, tuning: TuningView) -> Observation:
        """Whether the two go together."""
        inputs: dict[str, Value] = {
            "fullChain": WORDS.get(int(tasks.full_chain.item()), "none"),
            "bareNucleus": BARE_WORDS.get(int(nuclei.bare.item()), "none"),
            "parent_nucleus": tasks.parent_nucleus.item(),
            "must_follow_parent": bool(facts.bound_to.item() >= 0),
        }
        return Observation(flag(self.keep(tasks, nuclei, facts, tuning)), "==", True, "-", "task.splitrule.FU", inputs)
