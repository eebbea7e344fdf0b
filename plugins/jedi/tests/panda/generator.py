"""JEDI's own generator of jobs: one cycle from the tasks that wait to the rows that ``storeJobs`` writes.

Nothing is sent to PanDA's server afterwards (``execJobs`` off), and nothing is registered in Rucio (the set-upper of
PanDA's configuration for a new VO).
"""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Callable
from typing import Any

from panda import task_buffer
from panda.remote import Remote

#: Files of output and log by serial number: what a task's refinement leaves, of which the synthetic grids have none.
_TEMPLATES = """
INSERT INTO doma_panda.jedi_output_template (jeditaskid, datasetid, outtempid, filenametemplate, serialnr, maxserialnr,
    sourcename, streamname, outtype)
SELECT jeditaskid, datasetid, datasetid, datasetname || '._${SN}.' || CASE type WHEN 'log' THEN 'tgz' ELSE 'root' END,
    1, NULL, NULL, streamname, type
FROM doma_panda.jedi_datasets WHERE type IN ('output', 'log')"""
_TASKS = "UPDATE doma_panda.jedi_tasks SET transpath = 'Reco_tf.py', reqid = jeditaskid"


class _CycleOverError(BaseException):
    """The generator would sleep now."""


class _NothingToClean:
    def start(self) -> None:
        """No process is left behind here."""


def prepare(site: Any) -> None:
    """Give the tasks of a scenario what a refined task has."""
    site.run(_TEMPLATES)
    site.run(_TASKS)


def run_cycle(buffer: Any, ddm: Any, labels: str, *, threads: int = 1, serialised: bool = False) -> None:
    """One cycle of the generator in this process.

    Args:
        buffer: PanDA's task buffer.
        ddm: PanDA's client of Rucio.
        labels: words of ``procConfig``, such as ``managed|test``.
        threads: that broker at the same time.
        serialised: whether one process at a time brokers for a share, with a count of what was placed.
    """
    from pandajedi.jediconfig import jedi_config
    from pandajedi.jediorder import JobGenerator as module
    from pandaserver.config import panda_config

    panda_config.record_statuschange = True
    jedi_config.jobgen.nWorkers = threads
    jedi_config.jobgen.lockProcess = ":::" if serialised else "nobody:::"
    jedi_config.jobgen.inactive_poll_probability = 1.0
    jedi_config.jobgen.touchSandbox = False
    jedi_config.jobthrottle.modConfig = "atlas:any:panda.unthrottled:Unthrottled"

    from pandajedi.jediorder import JediKnight

    JediKnight.ZombieCleaner = _NothingToClean  # its thread would outlive the tests

    class OneCycle(module.JobGenerator):  # type: ignore[misc]
        def randomSleep(self, *_: Any, **__: Any) -> None:
            raise _CycleOverError

    generator = OneCycle(None, buffer, ddm, "atlas", labels, ["any"], True, False)
    generator.loopCycle_cust = -1
    try:
        generator.start()
    except _CycleOverError:
        return


def fix_draws(seed: str, distributed: set[int]) -> Callable[[], None]:
    """Draw a queue for each bunch of jobs by a seed and the order of names; gives what ends this.

    Args:
        seed: of the draws.
        distributed: tasks with a chunk whose input is spread over several places are added to these.
    """
    from pandajedi.jediorder.JobSplitter import JobSplitter

    split = JobSplitter.doSplit

    def in_order(self: Any, task: Any, chunk: Any, *rest: Any, **named: Any) -> Any:
        chunk.siteCandidates = dict(sorted(chunk.siteCandidates.items()))
        if chunk.masterDataset.isDistributed():
            distributed.add(task.jediTaskID)
        random.seed(f"{seed} {task.jediTaskID} {chunk.masterIndexName}")
        return split(self, task, chunk, *rest, **named)

    def end() -> None:
        JobSplitter.doSplit = split

    JobSplitter.doSplit = in_order
    return end


def run_forked(url: str, labels: str, at_end: Callable[[], None], processes: int, **settings: Any) -> list[int]:
    """One cycle in each of some forked processes, as JEDI's master forks them; their exit statuses.

    Args:
        url: of the database; each process connects by itself.
        labels: likewise for each.
        at_end: called in each process after its cycle.
        processes: how many.
        settings: of :func:`run_cycle`.
    """
    from pandajedi.jediddm.AtlasDDMClient import AtlasDDMClient

    children = []
    for _ in range(processes):
        child = os.fork()
        if child:
            children.append(child)
            continue
        try:
            buffer = Remote(task_buffer.task_buffer(task_buffer.connect(url)))
            run_cycle(buffer, Remote(AtlasDDMClient(None)), labels, **settings)
            at_end()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
