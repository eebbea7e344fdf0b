"""What PanDA's own brokers decide on a database: candidates, weights, nuclei, with the draws fixed."""

from __future__ import annotations

import copy
import logging
import re
import traceback
from dataclasses import dataclass, field
from typing import Any

JOB_STATUSES = ("ready", "running", "scouting", "topreprocess", "preprocessing")


@dataclass
class Decided:
    """The outcome for one chunk, or for one task.

    Attributes:
        task: its id.
        dataset: id of the master dataset; None for a task.
        ramcount: of the chunk, in MB.
        merging: whether the chunk merges.
        candidates: weight by pseudo-queue, or by nucleus.
        nucleus: the nucleus that was drawn.
        files: for each candidate the number of files by kind of locality.
        error: the exception that ended the brokerage, empty without.
        log: what the broker logged at level info and above.
    """

    task: int
    dataset: int | None = None
    ramcount: int | None = None
    merging: bool = False
    candidates: dict[str, float] = field(default_factory=dict)
    nucleus: str | None = None
    files: dict[str, dict[str, int]] = field(default_factory=dict)
    error: str = ""
    log: list[str] = field(default_factory=list)

    @property
    def key(self) -> tuple[int, int | None, int | None]:
        """What identifies the decision."""
        return self.task, self.dataset, self.ramcount


class _Captured(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _fixed(cls: Any) -> Any:
    """The broker with what PanDA leaves to the order of a set put in the order of names."""

    def by_name(method: str) -> Any:
        def sorted_names(self: Any, *args: Any) -> tuple[str, ...]:
            return tuple(sorted(getattr(cls, method)(self, *args)))

        return sorted_names

    return type(cls.__name__, (cls,), {name: by_name(name) for name in ("get_unified_sites", "get_pseudo_sites")})


class FixedDraw:
    """Stands for the module ``random``: nothing is shuffled but put in order of names, draws take the heaviest end."""

    @staticmethod
    def shuffle(candidates: list[Any]) -> None:
        """Queues by name: what PanDA shuffles before it sorts by weight, or among candidates of equal weight."""
        candidates.sort(key=_name_of)

    @staticmethod
    def uniform(low: float, high: float) -> float:
        """The upper end."""
        return high


def _name_of(item: Any) -> str:
    """Of a queue: it is shuffled as its name, as a pair with it, or as a candidate."""
    return str(item[0] if isinstance(item, tuple) else getattr(item, "siteName", item))


def decide_jobs(buffer: Any, ddm: Any, *, analysis: bool) -> list[Decided]:
    """Ask PanDA's job broker of production or analysis for every chunk of the tasks that wait for jobs."""
    from pandajedi.jedibrokerage import AtlasAnalJobBroker as analysis_module, AtlasBrokerUtils as utilities
    from pandajedi.jedibrokerage.AtlasAnalJobBroker import AtlasAnalJobBroker
    from pandajedi.jedibrokerage.AtlasProdJobBroker import AtlasProdJobBroker

    analysis_module.random = FixedDraw
    wanted = _fixed(AtlasAnalJobBroker if analysis else AtlasProdJobBroker)
    decisions = []
    for _, dict_of_task in _tasks(buffer, analysis=analysis):
        common: dict[str, Any] = {}
        # kept for a minute in a process, whatever the label: what the task before asked for is left to chance
        utilities.CACHE_SiteToRunRateStats.clear()
        utilities.CACHE_UsersJobsStats.clear()
        buffer.querySQL("DELETE FROM doma_panda.cache RETURNING main_key", {})
        for task_spec, cloud, chunk in dict_of_task:
            decisions.append(_decide(wanted, buffer, ddm, (task_spec, cloud, chunk), common))
    return decisions


def _tasks(buffer: Any, *, analysis: bool) -> list[tuple[int, Any]]:
    rows = buffer.querySQL(
        "SELECT jeditaskid FROM doma_panda.jedi_tasks WHERE status IN ('ready','running','scouting','topreprocess',"
        "'preprocessing') AND coalesce(prodsourcelabel IN ('user','panda'), false) = "
        f"{'true' if analysis else 'false'} ORDER BY coalesce(currentpriority,-1) DESC, jeditaskid",
        {},
    )
    tasks = []
    for (task,) in rows:
        got = buffer.getTasksToBeProcessed_JEDI(None, None, None, None, None, simTasks=[task], nFiles=5000)
        for one in got or []:
            tasks.append(one)
    return tasks


def _decide(cls: Any, buffer: Any, ddm: Any, item: tuple[Any, Any, Any], common: dict[str, Any]) -> Decided:
    task_spec, cloud, chunk = item
    master = chunk.masterDataset
    decided = Decided(task_spec.jediTaskID, master.datasetID, chunk.ramCount or 0, chunk.isMerging)
    handler, logger = _Captured(), logging.getLogger(f"panda.{cls.__name__}")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        parameters = None
        if task_spec.useLimitedSites():
            from pandajedi.jedirefine import RefinerUtils

            parameters = RefinerUtils.decodeJSON(buffer.getTaskParamsWithID_JEDI(task_spec.jediTaskID))
        broker = cls(ddm, buffer)
        broker.setLockID(0, 0)
        broker.set_task_common_dict(common)
        status, answer = broker.doBrokerage(copy.copy(task_spec), cloud, chunk, parameters)
        if status == broker.SC_SUCCEEDED:
            for name, candidate in answer.siteCandidates.items():
                decided.candidates[name] = candidate.weight
                decided.files[name] = _files(candidate)
    except Exception:
        decided.error = traceback.format_exc()
    finally:
        logger.removeHandler(handler)
    decided.log = handler.lines
    return decided


def _files(candidate: Any) -> dict[str, int]:
    kinds = {"disk": "localDiskFiles", "tape": "localTapeFiles", "cache": "cacheFiles", "remote": "remoteFiles"}
    return {kind: len(getattr(candidate, attribute)) for kind, attribute in kinds.items()}


_USED = re.compile(r"use nucleus=(\S+) weight=(\S+) ")


class _Recording:
    """A task buffer that keeps what the task broker would write instead of writing it."""

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer
        self.set: dict[int, Any] = {}
        self.errors: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._buffer, name)

    def setCloudToTasks_JEDI(self, tasks: dict[int, Any]) -> bool:
        """Keep the nuclei of tasks."""
        self.set.update(tasks)
        return True

    def updateTask_JEDI(self, task_spec: Any, criteria: Any, **_: Any) -> tuple[bool, int]:
        """Keep why a task has none."""
        self.errors[task_spec.jediTaskID] = str(task_spec.errorDialog)
        return True, 1


def decide_tasks(buffer: Any, ddm: Any) -> list[Decided]:
    """Ask PanDA's task broker for every task that waits for a nucleus, each against the same grid."""
    from pandajedi.jedibrokerage import AtlasProdTaskBroker as module

    module.random = FixedDraw
    decisions = []
    for task, label in _assigning(buffer):
        recording = _Recording(buffer)
        broker = module.AtlasProdTaskBroker(recording, ddm)
        decided = Decided(task)
        handler, logger = _Captured(), logging.getLogger(f"panda.{module.__name__.split('.')[-1]}")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            got = buffer.getTasksToBeProcessed_JEDI(
                None, None, None, None, None, simTasks=[task], readMinFiles=True, fullSimulation=True
            )
            _, spec = buffer.getTaskWithID_JEDI(task, False)
            queue = buffer.getWorkQueueMap().getQueueWithIDGshare(spec.workQueue_ID, spec.gshare)
            broker.doBrokerage(got, spec.vo, label, queue, spec.resource_type)
        except Exception:
            decided.error = traceback.format_exc()
        finally:
            logger.removeHandler(handler)
        decided.log = handler.lines
        _read_task(decided, recording.set.get(task))
        decisions.append(decided)
    return decisions


def _assigning(buffer: Any) -> list[tuple[int, str]]:
    rows = buffer.querySQL(
        "SELECT jeditaskid, prodsourcelabel FROM doma_panda.jedi_tasks WHERE status = 'assigning' "
        "ORDER BY coalesce(currentpriority,-1) DESC, jeditaskid",
        {},
    )
    return [(int(task), label) for task, label in rows]


def _read_task(decided: Decided, written: Any) -> None:
    for line in decided.log:
        match = _USED.search(line)
        if match is not None:
            decided.candidates[match.group(1)] = float(match.group(2))
    if written is not None:
        decided.nucleus = written["nucleus"]
    else:
        decided.candidates = {}
