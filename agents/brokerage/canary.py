"""Values that are tried on a share of the tasks, as the brokerages take them into a cycle."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents.service.base import CycleContext
from broker.brokerages.base import Cycle
from broker.domain.arrays import Bools, Ints
from broker.domain.decision_records import Origin
from broker.gdpconfig import Tuning
from broker.gdpconfig.canary import Canary
from broker.gdpconfig.catalogue import ValueRefusedError
from broker.gdpconfig.publish import Published
from broker.tuning.statements import canaries


@dataclass(frozen=True)
class CanaryInForce:
    """A canary of this cycle.

    Attributes:
        canary: in force at the instant for which the cycle decides.
        base: the values for the tasks that it does not choose.
        tried: the values for those that it does.
    """

    canary: Canary
    base: Published
    tried: Published

    def split(
        self, cycle: Cycle[Any], vo: str, origin: Origin, make: Callable[[Tuning], Cycle[Any]]
    ) -> tuple[Cycle[Any], Origin]:
        """The cycle of a VO with the tried values for the chosen tasks, and the origin of its decisions.

        Args:
            cycle: with the values in force.
            vo: of the tasks.
            origin: of the decisions.
            make: a cycle over the same work with other values.
        """
        rows = self._chosen(vo, cycle.jeditaskid)
        if rows is None:
            return cycle, origin
        return cycle.split(make(self.tried.tuning(vo)), rows), self._named(origin)

    def _chosen(self, vo: str, tasks: Ints) -> Bools | None:
        """(T,) the chosen tasks; None where the values are of another VO, or no task is chosen."""
        if self.tried.tuning(vo).settings == self.base.tuning(vo).settings:
            return None
        rows: Bools = self.canary.chosen(tasks.tolist())
        return rows if rows.any() else None

    def _named(self, origin: Origin) -> Origin:
        return dataclasses.replace(origin, canary=self.canary, canary_tuning=self.tried.version)


def canary_of(context: CycleContext, published: Published) -> tuple[CanaryInForce | None, tuple[str, ...]]:
    """The canary in force, if any, and remarks on one that cannot be taken into the cycle."""
    with context.transaction() as connection:
        found = canaries.running(connection, context.now)
        if found is None:
            return None, ()
        try:
            tried = canaries.tuning_with(connection, context.database.names, found, published, writes=context.writes)
        except ValueRefusedError as error:
            return None, (f"canary {found.id} left out: {error}",)
    return CanaryInForce(found, published, tried), ()
