"""The link to the nucleus must not be blocked."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import IdentityCache, RowsByKind
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, number
from broker.rules.production_job.link_options import NucleusOptions

BLOCKED = -1.0
#: Where links of the last snapshots are open.
_opened = IdentityCache[Bools]()


class LinkBlocked(Filter[JobPairs]):
    """Rejects queues whose link to the nucleus has closeness -1. An unknown link is not blocked.

    Source: ATLAS Production Job Brokerage, blocked links.
    """

    name = "link_blocked"
    reason = Reason(
        code="link_unusable",
        title="The link to the nucleus is not blocked",
        violation="The link to the nucleus is blocked",
        no_candidate="has a usable link to the nucleus",
        who="wait",
        cure="Other queues take the jobs meanwhile. Operators open the link when it works again (`broker links` shows "
        "it).",
    )
    sources = ("links",)
    unknown_policy = "keep"
    options: NucleusOptions = NucleusOptions()

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the link to the nucleus is not blocked."""
        closeness = pairs.facts.by_kind("closeness")
        table, column = closeness.table, closeness.column
        is_open = RowsByKind(
            _opened.of((table, column), lambda: closeness.of_table(np.asarray(table != BLOCKED)).by_candidate),
            closeness.kind,
        ).every
        return np.asarray(is_open if self.options.at_nucleus == "asked" else is_open | self.options.exempt(pairs.facts))

    def observe(self, pairs: JobPairs) -> Observation:
        """The closeness; None if unknown."""
        seen = Observation(number(pairs.facts.closeness), "!=", BLOCKED, "closeness", "rule")
        return self.options.observation(pairs.facts, seen)
