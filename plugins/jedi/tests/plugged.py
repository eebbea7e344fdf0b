"""JEDI's own way to a broker: its factories over the configured classes, and its splitter."""

from __future__ import annotations

from typing import Any

PRODUCTION = "gridbroker_jedi.job:GridJobBroker"
ANALYSIS = "gridbroker_jedi.job:GridAnalysisJobBroker"


GENERIC = "gridbroker_jedi.job:GridGenericJobBroker"


def configure(production: str = PRODUCTION, analysis: str = ANALYSIS) -> None:
    """Name the job brokers, as an operator does in ``panda_jedi.cfg``."""
    from pandajedi.jediconfig import jedi_config

    jedi_config.jobbroker.modConfig = f"atlas:any:{production},atlas:user:{analysis},wlcg:any:{GENERIC}"


def chunks(site: Any, task: int) -> list[tuple[Any, Any, Any]]:
    """Task, cloud and chunk for each chunk of a task, as JEDI's generator reads them."""
    found = site.buffer.getTasksToBeProcessed_JEDI(None, None, None, None, None, simTasks=[task], nFiles=5000)
    return [item for _, items in found for item in items]


def broker_for(site: Any, task_spec: Any) -> Any:
    """The broker that JEDI's factory makes for a task."""
    from pandajedi.jediorder.JobBroker import JobBroker

    factory = JobBroker(task_spec.vo, task_spec.prodSourceLabel)
    assert factory.initializeMods(site.ddm, site.buffer)
    broker = factory.getImpl(task_spec.vo, task_spec.prodSourceLabel)
    broker.setLockID(1, 1)
    broker.set_task_common_dict({})
    return broker


def split(site: Any, task_spec: Any, chunk: Any) -> dict[str, int]:
    """Jobs by queue, by JEDI's own splitter."""
    from pandajedi.jedicore import Interaction
    from pandajedi.jediorder.JobSplitter import JobSplitter

    mapper = site.buffer.get_site_mapper()
    status, groups, _ = JobSplitter().doSplit(task_spec, chunk, mapper, allow_chunk_size_limit=True)
    assert status == Interaction.SC_SUCCEEDED
    jobs: dict[str, int] = {}
    for group in groups:
        name = group["siteName"]
        jobs[name] = jobs.get(name, 0) + len(group["subChunks"])
    return jobs
