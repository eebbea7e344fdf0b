"""PanDA's own ends of jobs: ``killJob`` and the Watcher, on a database."""

from __future__ import annotations

from typing import Any

from grids.ends import End

from panda.task_buffer import task_buffer

_JOBS = ("jobsdefined4", "jobsactive4", "jobsarchived4")


def add_zeros(connection: Any) -> None:
    """Put 0 where PanDA's own jobs have it."""
    from pandaserver.taskbuffer.JobSpec import JobSpec

    with connection.cursor() as cursor:
        for table in _JOBS:
            zeros = ", ".join(f"{name} = coalesce({name}, 0)" for name in JobSpec._zeroAttrs)
            cursor.execute(f"UPDATE doma_panda.{table} SET {zeros}")
    connection.commit()


def end_in_panda(connection: Any, ends: list[End]) -> None:
    """Kill jobs by their codes, and let the Watcher see those that fail."""
    from pandaserver.config import panda_config

    panda_config.useJEDI = True
    panda_config.record_statuschange = True
    buffer = task_buffer(connection)
    for one in ends:
        if one.action == "failed":
            _watch(buffer, one.pandaid)
            continue
        with buffer.proxyPool.get() as proxy:
            options = ["keepUnmerged"] if one.code in (10, 51) else []
            assert proxy.killJob(one.pandaid, "gridbroker", one.code, True, killOpts=options), one


def _watch(buffer: Any, pandaid: int) -> None:
    from pandaserver.jobdispatcher import Watcher as module

    class Nothing:
        def __init__(self, *_: Any) -> None:
            pass

        def run(self) -> None:
            pass

    module.Closer = Nothing
    module.retryModule.job_failure_postprocessing = lambda *_: None
    module.Watcher(buffer, pandaid, single=True, sleepTime=60).run()
