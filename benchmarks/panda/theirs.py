"""PanDA's brokers, called as JEDI calls them, and their CPU time."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

from benchmarks.panda.figures import Round
from benchmarks.panda.site import PandaSite
from broker.store.reads.chunk_reads import ANALYSIS_LABELS, TASK_STATUSES

#: How many tasks JEDI passes to its task broker at once.
TASKS_AT_ONCE = 100
#: How many files of a task JEDI reads at once.
FILES_OF_A_TASK = 5000
_UNFILTERED = (None,) * 5


class ChunkWork:
    """The input chunks of production or of analysis, as JEDI's generator reads them.

    Args:
        site: PanDA's interfaces.
        analysis: whether the tasks are those of users.
    """

    def __init__(self, site: PandaSite, *, analysis: bool) -> None:
        from pandajedi.jedibrokerage import AtlasAnalJobBroker, AtlasProdJobBroker

        module = AtlasAnalJobBroker if analysis else AtlasProdJobBroker
        self._broker = module.AtlasAnalJobBroker if analysis else module.AtlasProdJobBroker
        self._site = site
        self._tasks = [
            pickle.dumps((chunks, _parameters(site, chunks)))
            for task in _ready_tasks(site, analysis)
            for _, chunks in site.buffer.getTasksToBeProcessed_JEDI(
                *_UNFILTERED, simTasks=[task], nFiles=FILES_OF_A_TASK
            )
        ]

    def run(self) -> Round:
        """Call a new broker for every chunk, as JEDI's generator does, the chunks of a task one after the other."""
        _reset(self._site)
        chunk_count, brokered, failed, spent_s = 0, 0, 0, 0.0
        for pickled in self._tasks:
            chunks, parameters = pickle.loads(pickled)  # noqa: S301 - our own bytes
            of_task: dict[str, Any] = {}
            for task, cloud, chunk in chunks:
                chunk_count += 1
                start_s = process_time()
                try:
                    broker = self._broker(self._site.ddm, self._site.buffer)
                    broker.setLockID(1, 1)
                    broker.set_task_common_dict(of_task)
                    status, answer = broker.doBrokerage(task, cloud, chunk, parameters)
                    brokered += status == broker.SC_SUCCEEDED and bool(answer.siteCandidates)
                except Exception:  # JEDI's generator also treats any exception as a failed brokerage
                    failed += 1
                spent_s += process_time() - start_s
        return _round(self._site, chunk_count, brokered, failed, spent_s)


class TaskWork:
    """The tasks that wait for a nucleus, in the batches in which JEDI's task broker gets them."""

    def __init__(self, site: PandaSite) -> None:
        self._site = site
        self._batches = [pickle.dumps(batch) for batch in _batches(site.buffer)]

    def run(self) -> Round:
        """Call a new broker for each batch."""
        from pandajedi.jedibrokerage.AtlasProdTaskBroker import AtlasProdTaskBroker

        _reset(self._site)
        placed: dict[int, Any] = {}
        task_count, spent_s = 0, 0.0
        for pickled in self._batches:
            batch, label, queue, resource_type = pickle.loads(pickled)  # noqa: S301 - our own bytes
            start_s = process_time()
            broker = AtlasProdTaskBroker(_AssignmentRecorder(self._site.buffer, placed), self._site.ddm)
            broker.doBrokerage(batch, "atlas", label, queue, resource_type)
            spent_s += process_time() - start_s
            task_count += len(batch)
        return _round(self._site, task_count, len(placed), 0, spent_s)


class _AssignmentRecorder:
    """A task buffer that records which tasks got a nucleus."""

    def __init__(self, buffer: Any, placed: dict[int, Any]) -> None:
        self._buffer, self._placed = buffer, placed

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._buffer, name)
        return method

    def setCloudToTasks_JEDI(self, tasks: dict[int, Any]) -> bool:  # noqa: N802 - PanDA's name
        self._placed.update(tasks)
        return True


def _ready_tasks(site: PandaSite, analysis: bool) -> list[int]:
    """Return the tasks in JEDI's order: by priority, then by number."""
    statuses, labels = (",".join(f"'{name}'" for name in names) for names in (TASK_STATUSES, ANALYSIS_LABELS))
    rows = site.buffer.querySQL(
        f"SELECT jeditaskid FROM doma_panda.jedi_tasks WHERE status IN ({statuses}) AND "  # noqa: S608 - constants
        f"coalesce(prodsourcelabel IN ({labels}), false) = {analysis} "
        "ORDER BY coalesce(currentpriority, -1) DESC, jeditaskid",
        {},
    )
    return [int(task) for (task,) in rows]


def _parameters(site: PandaSite, chunks: list[tuple[Any, Any, Any]]) -> Any:
    """Return the parameters of a task; JEDI reads them only if the task limits its sites."""
    from pandajedi.jedirefine import RefinerUtils

    task = chunks[0][0]
    if not task.useLimitedSites():
        return None
    return RefinerUtils.decodeJSON(site.buffer.getTaskParamsWithID_JEDI(task.jediTaskID))


def _batches(buffer: Any) -> Iterator[tuple[list[Any], str, Any, str]]:
    """Yield batches of tasks of one label, work queue and resource type, at most :data:`TASKS_AT_ONCE` each."""
    rows = buffer.querySQL(
        "SELECT jeditaskid, prodsourcelabel FROM doma_panda.jedi_tasks WHERE status = 'assigning' "
        "ORDER BY coalesce(currentpriority, -1) DESC, jeditaskid",
        {},
    )
    groups: dict[tuple[str, Any, str], tuple[Any, list[Any]]] = {}
    for task, label in rows:
        task_specs = buffer.getTasksToBeProcessed_JEDI(
            *_UNFILTERED, simTasks=[task], readMinFiles=True, fullSimulation=True
        )
        _, spec = buffer.getTaskWithID_JEDI(task, False)
        queue = buffer.getWorkQueueMap().getQueueWithIDGshare(spec.workQueue_ID, spec.gshare)
        key = label, queue.queue_name, spec.resource_type
        groups.setdefault(key, (queue, []))[1].extend(task_specs)
    for (label, _, resource_type), (queue, tasks) in groups.items():
        for first in range(0, len(tasks), TASKS_AT_ONCE):
            yield tasks[first : first + TASKS_AT_ONCE], label, queue, resource_type


def _reset(site: PandaSite) -> None:
    """Reset all state, as in a process that has decided nothing yet."""
    from pandajedi.jedibrokerage import AtlasBrokerUtils

    AtlasBrokerUtils.CACHE_SiteToRunRateStats.clear()
    AtlasBrokerUtils.CACHE_UsersJobsStats.clear()
    random.seed(1)
    site.buffer.start_anew()
    site.ddm.start_anew()


def _round(site: PandaSite, chunks: int, brokered: int, failed: int, spent_s: float) -> Round:
    answers_s = site.buffer.spent_s + site.ddm.spent_s
    return Round(chunks, brokered, failed, spent_s - answers_s, answers_s, site.buffer.missed + site.ddm.missed)
