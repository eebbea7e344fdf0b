"""PanDA's brokers, asked as JEDI asks them, and the CPU time that they take."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

from benchmarks.panda.figures import Round
from benchmarks.panda.site import PandaSite
from broker.store.reads.chunk_reads import ANALYSIS_LABELS, TASK_STATUSES

#: Tasks that JEDI hands to its task broker at once.
TASKS_AT_ONCE = 100
#: Files that JEDI reads of a task at once.
FILES_OF_A_TASK = 5000
_NOT_NAMED = (None,) * 5


class ChunkWork:
    """The input chunks of production or of analysis, as JEDI's generator reads them.

    Args:
        site: PanDA's interfaces.
        analysis: whether the tasks are users'.
    """

    def __init__(self, site: PandaSite, *, analysis: bool) -> None:
        from pandajedi.jedibrokerage import AtlasAnalJobBroker, AtlasProdJobBroker

        module = AtlasAnalJobBroker if analysis else AtlasProdJobBroker
        self._broker = module.AtlasAnalJobBroker if analysis else module.AtlasProdJobBroker
        self._site = site
        self._tasks = [
            pickle.dumps((chunks, _parameters(site, chunks)))
            for task in _ready(site, analysis)
            for _, chunks in site.buffer.getTasksToBeProcessed_JEDI(
                *_NOT_NAMED, simTasks=[task], nFiles=FILES_OF_A_TASK
            )
        ]

    def run(self) -> Round:
        """Ask a new broker for every chunk, as JEDI's generator does, the chunks of a task one after the other."""
        _forget(self._site)
        asked, brokered, failed, spent_s = 0, 0, 0, 0.0
        for packed in self._tasks:
            chunks, parameters = pickle.loads(packed)  # noqa: S301 - our own bytes
            of_task: dict[str, Any] = {}
            for task, cloud, chunk in chunks:
                asked += 1
                started = process_time()
                try:
                    broker = self._broker(self._site.ddm, self._site.buffer)
                    broker.setLockID(1, 1)
                    broker.set_task_common_dict(of_task)
                    status, answer = broker.doBrokerage(task, cloud, chunk, parameters)
                    brokered += status == broker.SC_SUCCEEDED and bool(answer.siteCandidates)
                except Exception:  # as JEDI's generator, which takes any for a brokerage that failed
                    failed += 1
                spent_s += process_time() - started
        return _round(self._site, asked, brokered, failed, spent_s)


class TaskWork:
    """The tasks that wait for a nucleus, in the batches in which JEDI's task broker gets them."""

    def __init__(self, site: PandaSite) -> None:
        self._site = site
        self._batches = [pickle.dumps(batch) for batch in _batches(site.buffer)]

    def run(self) -> Round:
        """Ask one broker for all batches."""
        from pandajedi.jedibrokerage.AtlasProdTaskBroker import AtlasProdTaskBroker

        _forget(self._site)
        placed: dict[int, Any] = {}
        asked, spent_s = 0, 0.0
        for packed in self._batches:
            batch, label, queue, resource_type = pickle.loads(packed)  # noqa: S301 - our own bytes
            started = process_time()
            broker = AtlasProdTaskBroker(_Noting(self._site.buffer, placed), self._site.ddm)
            broker.doBrokerage(batch, "atlas", label, queue, resource_type)
            spent_s += process_time() - started
            asked += len(batch)
        return _round(self._site, asked, len(placed), 0, spent_s)


class _Noting:
    """A task buffer that notes which tasks were given a nucleus."""

    def __init__(self, buffer: Any, placed: dict[int, Any]) -> None:
        self._buffer, self._placed = buffer, placed

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(self._buffer, name)
        return found

    def setCloudToTasks_JEDI(self, tasks: dict[int, Any]) -> bool:  # noqa: N802 - PanDA's name
        self._placed.update(tasks)
        return True


def _ready(site: PandaSite, analysis: bool) -> list[int]:
    """Tasks in the order of JEDI: by priority, then by number."""
    statuses, labels = (",".join(f"'{name}'" for name in names) for names in (TASK_STATUSES, ANALYSIS_LABELS))
    rows = site.buffer.querySQL(
        f"SELECT jeditaskid FROM doma_panda.jedi_tasks WHERE status IN ({statuses}) AND "  # noqa: S608 - constants
        f"coalesce(prodsourcelabel IN ({labels}), false) = {analysis} "
        "ORDER BY coalesce(currentpriority, -1) DESC, jeditaskid",
        {},
    )
    return [int(task) for (task,) in rows]


def _parameters(site: PandaSite, chunks: list[tuple[Any, Any, Any]]) -> Any:
    """The parameters of a task, which JEDI reads where the task limits its sites."""
    from pandajedi.jedirefine import RefinerUtils

    task = chunks[0][0]
    if not task.useLimitedSites():
        return None
    return RefinerUtils.decodeJSON(site.buffer.getTaskParamsWithID_JEDI(task.jediTaskID))


def _batches(buffer: Any) -> Iterator[tuple[list[Any], str, Any, str]]:
    """Tasks of one label, work queue and resource type, at most :data:`TASKS_AT_ONCE` a batch."""
    rows = buffer.querySQL(
        "SELECT jeditaskid, prodsourcelabel FROM doma_panda.jedi_tasks WHERE status = 'assigning' "
        "ORDER BY coalesce(currentpriority, -1) DESC, jeditaskid",
        {},
    )
    groups: dict[tuple[str, Any, str], tuple[Any, list[Any]]] = {}
    for task, label in rows:
        read = buffer.getTasksToBeProcessed_JEDI(*_NOT_NAMED, simTasks=[task], readMinFiles=True, fullSimulation=True)
        _, spec = buffer.getTaskWithID_JEDI(task, False)
        queue = buffer.getWorkQueueMap().getQueueWithIDGshare(spec.workQueue_ID, spec.gshare)
        key = label, queue.queue_name, spec.resource_type
        groups.setdefault(key, (queue, []))[1].extend(read)
    for (label, _, resource_type), (queue, tasks) in groups.items():
        for first in range(0, len(tasks), TASKS_AT_ONCE):
            yield tasks[first : first + TASKS_AT_ONCE], label, queue, resource_type


def _forget(site: PandaSite) -> None:
    """Begin a round as a process that has decided nothing yet."""
    from pandajedi.jedibrokerage import AtlasBrokerUtils

    AtlasBrokerUtils.CACHE_SiteToRunRateStats.clear()
    AtlasBrokerUtils.CACHE_UsersJobsStats.clear()
    random.seed(1)
    site.buffer.start_anew()
    site.ddm.start_anew()


def _round(site: PandaSite, chunks: int, brokered: int, failed: int, spent_s: float) -> Round:
    answers_s = site.buffer.spent_s + site.ddm.spent_s
    return Round(chunks, brokered, failed, spent_s - answers_s, answers_s, site.buffer.missed + site.ddm.missed)
