"""Full chains go to bare nuclei, and stay where they began."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.domain.queues import BARE_NONE, BARE_ONLY
from broker.rules.contract import Bools, Filter, Observation, Options, Reason, TaskPairs, Value, flag

ONLY, REQUIRE = 1, 2
WORDS = {0: "none", 1: "only", 2: "require", 3: "capable"}
BARE_WORDS = {0: "none", 1: "only", 2: "allow"}


class FullChainOptions(Options):
    """Which nuclei take which tasks.

    Attributes:
        only: a task ``only`` needs a nucleus with bareNucleus=only, or any bare one.
        capable: a task ``capable`` goes to nuclei with bareNucleus=only with its parent, or at any time.
    """

    only: Literal["bare_only", "any_bare"] = "bare_only"
    capable: Literal["with_parent", "anywhere"] = "with_parent"


class FullChain(Filter[TaskPairs]):
    """Keeps nuclei that the task's ``fullChain`` (split rule ``FU``) and their ``bareNucleus`` allow.

    A task of a chain whose parent is on a bare nucleus must follow it. ``only`` needs a nucleus with bareNucleus=only,
    ``require`` a bare one; ``capable`` is like no full chain, except for following the parent. Nuclei with
    bareNucleus=only take nothing else. Source: Special Brokerage for ATLAS Full-chain.
    """

    name = "full_chain"
    reason = Reason(
        code="full_chain",
        title="The nucleus takes such tasks, and is that of the chain",
        violation="The nucleus takes no such task, or the chain is bound to another one",
        no_candidate="is open to such tasks and is that of the chain",
        who="ask",
        cure="A task of a full chain runs at the nucleus of its chain only: operators bring that nucleus back, or "
        "change its `bareNucleus`.",
    )
    sources = ("queues",)
    options: FullChainOptions = FullChainOptions()
    provenance = "Special Brokerage for ATLAS Full-chain"

    def keep(self, pairs: TaskPairs) -> Bools:
        """(T, N): true where the nucleus takes such tasks, and is that of the chain."""
        follows = pairs.facts.bound_to >= 0
        there = pairs.facts.bound_to == pairs.facts.position
        is_only, is_bare = pairs.nuclei.bare == BARE_ONLY, pairs.nuclei.bare != BARE_NONE
        normal = (pairs.tasks.full_chain != ONLY) & (pairs.tasks.full_chain != REQUIRE)
        may_open = follows & there
        if self.options.capable == "anywhere":
            may_open = may_open | (pairs.tasks.full_chain > 0)
        for_only = is_only if self.options.only == "bare_only" else is_bare
        by_kind = np.where(pairs.tasks.full_chain == ONLY, for_only, np.where(normal, ~is_only | may_open, is_bare))
        return np.asarray(by_kind & (there | ~follows))

    def observe(self, pairs: TaskPairs) -> Observation:
        """Whether the task and the nucleus fit together."""
        inputs: dict[str, Value] = {
            "fullChain": WORDS.get(int(pairs.tasks.full_chain.item()), "none"),
            "bareNucleus": BARE_WORDS.get(int(pairs.nuclei.bare.item()), "none"),
            "parent_nucleus": pairs.tasks.parent_nucleus.item(),
            "must_follow_parent": bool(pairs.facts.bound_to.item() >= 0),
        }
        return Observation(flag(self.keep(pairs)), "==", True, "-", "task.splitrule.FU", inputs)
