"""Which places of the grid belong to which queue, and which of them are eligible for which SubmitPool."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from broker.domain.arrays import Bools, Ints, Texts, distinct
from broker.domain.placement_constraints import PlacementConstraints


@dataclass(frozen=True)
class PoolTable:
    """Places (length N): a Site/CE/queue each, by rising number; and pools (length P).

    ``unified`` points into UnifiedTable. ``members`` has the numbers of the eligible places of a pool, with commas.
    """

    number: Ints
    site: Texts
    unified: Ints
    pool: Texts
    members: Texts

    def admitted(self, asked: PlacementConstraints, own_sites: Texts) -> tuple[Bools, Bools]:
        """For each unified queue whether it has a place at the sites asked for, and one of the pool there.

        ``own_sites`` (U,): the site of each queue, which counts where nothing is known of its places.
        """
        right = _admitted_sites(asked, *self._sites)
        at_site = _admitted_sites(asked, *distinct(own_sites))
        at_site[self.unified] = False
        at_site[self.unified[right]] = True
        if asked.pool is None:
            return at_site, at_site
        in_pool = np.zeros(len(own_sites), dtype=np.bool_)
        members = self.tie_break_order(asked.pool)
        in_pool[self.unified[members[right[members]]]] = True
        return at_site, in_pool

    @cached_property
    def _sites(self) -> tuple[list[str | None], Ints]:
        return distinct(self.site)

    @cached_property
    def _members_of(self) -> dict[str | None, str | None]:
        return dict(zip(self.pool.tolist(), self.members.tolist(), strict=True))

    def tie_break_order(self, pool: str) -> Ints:
        """Positions of the places that are eligible for a pool."""
        members = self._members_of.get(pool)
        return np.flatnonzero(np.isin(self.number, np.array(members.split(",") if members else [], dtype=np.int64)))


def _admitted_sites(asked: PlacementConstraints, sites: list[str | None], code: Ints) -> Bools:
    return np.array([asked.admits(site) for site in sites], dtype=np.bool_)[code]


def _nothing() -> PoolTable:
    text, whole = np.empty(0, dtype=np.object_), np.empty(0, dtype=np.int64)
    return PoolTable(whole, text, whole, text, text)


NO_POOLS = _nothing()
"""Nothing is known of places, and there is no pool."""
