"""The agent that activates jobs and keeps the task queues from which pilots get them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter

import numpy as np
from pydantic import Field

from agents.brokerage.grid_reading import tuning_of
from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from broker.domain.arrays import Floats
from broker.pilots.statements.activation import Sorted, sort_jobs, write_sorted
from broker.pilots.statements.task_queue_rows import follow_jobs, weigh
from broker.store.connection.tables import TableCatalogue
from broker.store.schema import migrate


class ActivationOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        jobs_of_a_cycle: jobs looked at in one cycle.
        jobs_of_a_batch: jobs written in one transaction.
    """

    jobs_of_a_cycle: int = Field(default=100_000, ge=1)
    jobs_of_a_batch: int = Field(default=5_000, ge=1)


class ActivationAgent(Agent[ActivationOptions]):
    """Activates jobs whose input is there, where the broker makes the jobs itself; alongside PanDA it does nothing."""

    name = "activation"
    title = "activation of jobs, and the task queues of those that wait for pilots"
    options_type = ActivationOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Look at all jobs that are not activated yet, and let the task queues follow."""
        installation = migrate.check(context.database)
        if installation != migrate.STANDALONE or not self.process.makes_jobs(installation):
            return CycleReport(notes=("PanDA activates its jobs itself",))
        started = perf_counter()
        with context.database.read_snapshot() as connection:
            catalogue = TableCatalogue.read(connection, context.database.names)
            jobs = sort_jobs(connection, catalogue, self.options.jobs_of_a_cycle, context.seed)
        context.check()
        loaded_s = perf_counter() - started
        self._emit(context, jobs)
        counts = {"ready": len(jobs.ready), "waiting_for_input": len(jobs.waiting)}
        if not context.writes:
            return CycleReport(counts, {"load_s": loaded_s})
        for batch in _batches(jobs, self.options.jobs_of_a_batch):
            with context.writing() as connection:
                for name, count in write_sorted(connection, catalogue, batch, context.now).items():
                    counts[name] = counts.get(name, 0) + count
            context.check()
        counts |= self._follow(context)
        return CycleReport(counts, {"load_s": loaded_s, "write_s": perf_counter() - started - loaded_s})

    def _follow(self, context: CycleContext) -> dict[str, int]:
        tuning = tuning_of(context).tuning(None).only(("MATCH_SHARE", "MATCH_BACKGROUND"))

        def share_values(shares: Sequence[str | None]) -> Floats:
            return np.asarray(tuning.by_suffix("MATCH_SHARE", shares), dtype=np.float64)

        with context.writing() as connection:
            counts = follow_jobs(connection, context.database.names, context.now)
            counts["task_queues"] = weigh(connection, share_values, background=tuning.flag("MATCH_BACKGROUND"))
        return counts

    def _emit(self, context: CycleContext, jobs: Sorted) -> None:
        if context.request.emit is None:
            return
        for status, sorted_jobs in (("activated", jobs.ready), ("assigned", jobs.waiting)):
            for pandaid, queue in sorted_jobs:
                context.request.emit({"pandaid": pandaid, "queue": queue, "jobstatus": status})


def _batches(jobs: Sorted, size: int) -> Iterator[Sorted]:
    """The jobs in parts of at most ``size`` of each kind."""
    for start in range(0, max(len(jobs.ready), len(jobs.waiting)), size):
        yield Sorted(jobs.ready[start : start + size], jobs.waiting[start : start + size])
