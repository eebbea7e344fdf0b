"""The brokerages of a profile as a policy: the functions of the agents, on snapshots of the simulated grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from broker.brokerages.job.assign import assign_chunks
from broker.brokerages.production_job.rules import chain as shipped_chain
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.chain import QueueChain
from broker.gdpconfig import Tuning
from broker.simulation.information import GridView
from broker.simulation.job_states import TaskState
from broker.simulation.policies.base import Assignment, WaitingJobs, nucleus_by_space
from broker.simulation.real.chunk_work import chunk_work
from broker.simulation.real.grid_rows import VO
from broker.simulation.real.snapshots import SnapshotKeeper
from broker.simulation.scenario import Scenario, Task

#: Tuning that a simulation needs beside the shipped one.
SIMULATED: Mapping[str, object] = {}


class Brokered:
    """The production job brokerage with one chain of rules and one tuning.

    Args:
        scenario: of the simulation.
        seed: of the draws.
        chain: the rules; None: as shipped.
        values: gdpconfig keys that differ from the shipped tuning.
    """

    name = "seed"

    def __init__(
        self, scenario: Scenario, seed: int, chain: QueueChain | None = None, values: Mapping[str, object] | None = None
    ) -> None:
        self.scenario, self.seed = scenario, seed
        self.keeper = SnapshotKeeper(scenario)
        self.chain = chain or shipped_chain()
        self.tuning = Tuning.defaults(VO).with_values({**SIMULATED, **(values or {})})  # type: ignore[dict-item]
        self.faults: dict[str, int] = {}

    def choose_nucleus(self, view: GridView, task: Task) -> int:
        """See :class:`Policy`."""
        return nucleus_by_space(self.scenario, self.seed, view, task)

    def assign(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[Assignment]:
        """The jobs that the brokerage makes of the chunks, by queue."""
        work = chunk_work(self.scenario, tasks)
        engine = JobCycle(self.keeper.snapshot(view), work.work, self.tuning, self.chain)
        assignments = []
        for chunk in assign_chunks(engine, work, self.seed + cycle):
            queues = self.keeper.queue_of[chunk.candidate]
            for queue, jobs in zip(*np.unique(queues, return_counts=True), strict=True):
                assignments.append(Assignment(tasks[chunk.row].task.number, int(queue), int(jobs)))
        for fault in engine.faults:
            self.faults[fault.rule] = self.faults.get(fault.rule, 0) + 1
        return assignments

    def overdue(self, view: GridView, waiting: WaitingJobs) -> Sequence[int]:
        """Jobs that have waited for longer than the scenario's timeout."""
        since = np.asarray(waiting.since_s)
        return np.flatnonzero(view.now_s - since > self.scenario.job_timeout_s).tolist()
