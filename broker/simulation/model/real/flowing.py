"""``flow`` as a policy: the filters of the broker, then one linear program for all chunks of the cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.domain.retry import PENDING_MINUTES, PENDING_MINUTES_OF_USERS
from broker.flow.model.cycle import FlowResult, damped, decide
from broker.flow.model.problem import FlowChunks, FlowCosts, FlowPairs, FlowProblem, FlowQueues
from broker.simulation.model.information import GridView
from broker.simulation.model.job_states import TaskState
from broker.simulation.model.policies.base import Assignment
from broker.simulation.model.real.brokered import ANALYSIS, Brokered, by_brokerage
from broker.simulation.model.scenario import Scenario

#: Rate of a stage-in that is expected, GB/s, and files that may wait on an output link.
EXPECTED_RATE_GB_S = 0.03
OUTPUT_FILES_A_LINK = 1000.0
EXPECTED_EFFICIENCY = 0.85
#: Jobs after which the failures of a queue count half of what is expected of any queue.
FAILURE_PRIOR = (1.0, 20.0)
DAMPING = 0.5
TIME_LIMIT_S = 30.0


class Flowing(Brokered):
    """Places the chunks of a cycle together. Filters and reasons are those of the profile; the cut to ten is not made.

    Args:
        scenario: of the simulation.
        seed: of the rounding.
        costs: prices of the program.
        values: gdpconfig keys that differ from the shipped tuning.
    """

    name = "flow"

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        costs: FlowCosts | None = None,
        values: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(scenario, seed, values=values)
        self._costs = costs or FlowCosts(reference_power=_mean_power(scenario))
        self._prices: Floats | None = None
        self._limit = np.nan_to_num(
            self.tuning.only(("NQUEUELIMITSITE",)).by_suffix("NQUEUELIMITSITE", [name for name, _ in scenario.shares])
        )
        self.fallbacks = 0
        self.gaps: list[float] = []

    def assign(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[Assignment]:
        """The jobs that the program places, by queue."""
        self._waits_s = {}
        feasible = np.zeros((len(tasks), len(self.scenario.queues)), dtype=np.bool_)
        row_of = {state.task.number: row for row, state in enumerate(tasks)}
        for name, own in by_brokerage(tasks):
            rows = np.array([row_of[state.task.number] for state in own])
            feasible[rows] = self._feasible(name, view, own)
        problem = self._problem(view, tasks, feasible)
        if not len(problem.pairs):
            return []
        result = self._decide(problem, cycle)
        placed = np.flatnonzero(result.jobs)
        return [
            Assignment(tasks[int(problem.pairs.chunk[p])].task.number, int(problem.pairs.queue[p]), int(result.jobs[p]))
            for p in placed.tolist()
        ]

    def _feasible(self, name: str, view: GridView, tasks: Sequence[TaskState]) -> Bools:
        """(T, U) the queues that all filters of a job brokerage passed; none for a chunk that is throttled."""
        running = self.cycle_of(name, view, tasks, independent=True)
        queue_of = self.keeper.queues_of(running.snapshot)
        wait = PENDING_MINUTES_OF_USERS if name == ANALYSIS else PENDING_MINUTES
        feasible = np.zeros((len(tasks), len(self.scenario.queues)), dtype=np.bool_)
        for result in running.engine.results():
            feasible[result.row, queue_of[result.feasible]] = True
            if not len(result.feasible):
                self._waits_s[tasks[result.row].task.number] = wait * 60.0
        self._note_faults(running.faults)
        return feasible

    def _decide(self, problem: FlowProblem, cycle: int) -> FlowResult:
        result = decide(problem, self.seed + cycle, self._prices, TIME_LIMIT_S)
        if result.fallback:
            self.fallbacks += 1
        else:
            self._prices = damped(self._prices, result.prices, DAMPING)
            self.gaps.append(result.gap)
        return result

    def _problem(self, view: GridView, tasks: Sequence[TaskState], feasible: Bools) -> FlowProblem:
        chunk, queue = np.nonzero(feasible)
        site = view.queues.site[queue]
        local = np.array([int(s) in tasks[int(k)].task.sources for k, s in zip(chunk, site, strict=True)])
        output, output_jobs = self._outputs(view, tasks, chunk, site)
        pairs = FlowPairs(
            chunk=chunk.astype(np.int64),
            queue=queue.astype(np.int64),
            missing=np.where(local, 0.0, 1.0) if len(chunk) else np.zeros(0),
            rate_gb_s=np.full(len(chunk), EXPECTED_RATE_GB_S),
            output=output,
        )
        sites = len(self.scenario.sites)
        window = self._costs.transfer_window_s
        total = view.share_hs06.sum()
        debt = np.maximum(view.targets * total - view.share_hs06, 0.0)
        return FlowProblem(
            chunks=_chunks(tasks),
            queues=self._queues(view),
            pairs=pairs,
            link_gb=np.full(sites, self.scenario.default_link_bytes_s * window / 1e9),
            output_jobs=output_jobs,
            share_debt_hs06=debt,
            costs=self._costs,
        )

    def _queues(self, view: GridView) -> FlowQueues:
        """Waiting is what exceeds the cores of a queue; room is what the cap of the profile leaves."""
        capacity = np.maximum(view.queues.cores, view.busy_cores).astype(np.float64)
        running = view.counts[:, :, 4]
        waiting = view.counts[:, :, :4].sum(axis=2) + view.assigned
        finished, failed = view.outcomes.T
        failure = (failed + FAILURE_PRIOR[0]) / (finished + failed + FAILURE_PRIOR[1])
        return FlowQueues(
            corepower=view.queues.corepower,
            efficiency=np.full(len(capacity), EXPECTED_EFFICIENCY),
            failure=failure,
            running_cores=capacity,
            waiting_cores=view.waiting_cores + view.busy_cores - capacity,
            room=np.maximum(np.maximum(self._limit, 2.0 * running) - waiting, 0.0),
            link=view.queues.site,
        )

    def _outputs(self, view: GridView, tasks: Sequence[TaskState], chunk: Ints, site: Ints) -> tuple[Ints, Floats]:
        """The output link of each pair, and files until its cap."""
        nucleus = np.array([state.nucleus for state in tasks], dtype=np.int64)[chunk]
        key = np.where((nucleus >= 0) & (nucleus != site), site * len(self.scenario.sites) + nucleus, -1)
        links, index = np.unique(key, return_inverse=True)
        files = [
            OUTPUT_FILES_A_LINK - view.queued.get(divmod(int(link), len(self.scenario.sites)), 0)
            for link in links
            if link >= 0
        ]
        index = index - int(len(links) > 0 and links[0] == -1)
        return np.asarray(index, dtype=np.int64), np.maximum(np.array(files, dtype=np.float64), 0.0)


def _chunks(tasks: Sequence[TaskState]) -> FlowChunks:
    return FlowChunks(
        key=np.array([state.task.number for state in tasks], dtype=np.int64),
        jobs=np.array([len(state.unassigned) for state in tasks], dtype=np.int64),
        cores=np.array([float(state.kind.cores) for state in tasks]),
        work_hs06s=np.array([state.believed_work_hs06s for state in tasks]),
        input_gb=np.array([state.kind.input_gb for state in tasks]),
        share=np.array([state.task.share for state in tasks], dtype=np.int64),
        priority=np.array([state.task.priority for state in tasks]),
    )


def _mean_power(scenario: Scenario) -> float:
    cores = sum(queue.cores for queue in scenario.queues)
    return sum(queue.cores * queue.corepower for queue in scenario.queues) / cores
