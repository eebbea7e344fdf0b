"""Values that are tried on a share of the tasks, as the brokerages take them into a cycle."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from agents.base import CycleContext
from broker.domain.arrays import Bools, Ints
from broker.engine.job_cycle import JobCycle
from broker.engine.split_cycle import SplitCycle
from broker.engine.task_cycle import TaskCycle
from broker.gdpconfig import Tuning
from broker.gdpconfig.canary import Canary
from broker.gdpconfig.catalogue import ValueRefusedError
from broker.gdpconfig.publish import Published
from broker.store import canaries
from broker.store.decisions import Origin


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

    def split_jobs(
        self, cycle: JobCycle, vo: str, origin: Origin, make: Callable[[Tuning], JobCycle]
    ) -> tuple[JobCycle, Origin]:
        """The cycle of a VO with the tried values for the chosen tasks, and the origin of its decisions.

        Args:
            cycle: with the values in force.
            vo: of the tasks.
            origin: of the decisions.
            make: a cycle over the same work with other values.
        """
        rows = self._chosen(vo, cycle.work.chunks.jeditaskid)
        if rows is None:
            return cycle, origin
        return SplitCycle(cycle, make(self.tried.tuning(vo)), rows), self._named(origin)

    def split_tasks(
        self, cycle: TaskCycle, vo: str, origin: Origin, make: Callable[[Tuning], TaskCycle]
    ) -> tuple[TaskCycle, Origin]:
        """The same for a cycle of the task brokerage."""
        rows = self._chosen(vo, cycle.work.tasks.jeditaskid)
        if rows is None:
            return cycle, origin
        cycle.take_rows_of(make(self.tried.tuning(vo)), rows)
        return cycle, self._named(origin)

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
    writes = context.request.writes
    database = context.database
    with database.begin() if writes else database.read_snapshot() as connection:
        found = canaries.running(connection, context.now)
        if found is None:
            return None, ()
        try:
            tried = canaries.tuning_with(connection, database.names, found, published, writes=writes)
        except ValueRefusedError as error:
            return None, (f"canary {found.id} left out: {error}",)
    return CanaryInForce(found, published, tried), ()
