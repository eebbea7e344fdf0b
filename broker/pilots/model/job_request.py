"""A pilot's request for a job, and which of the jobs that wait at its queue it may get.

Source: PanDA server, API of pilots (acquire_jobs) and its dispatcher (getJob), choice of jobs (getJobs).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from broker.pilots.model.values import given, limit_of, not_negative, optional, text

MOST_JOBS = 100
"""Most jobs that are given at one request."""

TEST_LABELS = ("test", "prod_test", "install")
#: Labels of the jobs that a pilot of each label runs; of any other label only the same.
LABELS: Mapping[str, tuple[str, ...]] = {
    "user": ("user", "panda", "install"),
    "managed": ("managed", *TEST_LABELS),
    "unified": ("managed", *TEST_LABELS, "user", "panda"),
}
ANALYSIS, PRODUCTION = ("user", "panda"), ("managed",)
TESTED = ("user", "managed", "unified")
"""Labels of pilots that run tests only, where their queue is in status test."""
GANGA_ROBOT = "gangarobot"


class RequestRefused(ValueError):
    """A request that is not understood; its text says why."""


@dataclass(frozen=True)
class JobRequest:
    """What a pilot presents.

    Attributes:
        queue: PanDA queue that it runs at.
        label: label of the jobs that it runs; None: production.
        memory_mb: memory of its slot; 0: no limit.
        disk_mb: disk of its slot; 0: no limit.
        remaining_s: seconds that its slot has left; 0: not known.
        node: host, perhaps with a slot.
        computing_element: stored with the job.
        scheduler: stored with the job.
        task: only jobs of this task.
        user: only jobs of this user.
        resource_type: only jobs of this type.
        job_type: for test jobs, whether they are analysis or production.
        harvester: Harvester instance that started the worker, with ``worker``.
        worker: number of the worker.
        jobs: number of jobs wanted.
        in_bulk: whether the answer is a list, whatever the number.
    """

    queue: str
    label: str | None = None
    memory_mb: int = 0
    disk_mb: int = 0
    remaining_s: int = 0
    node: str | None = None
    computing_element: str | None = None
    scheduler: str | None = None
    task: int | None = None
    user: str | None = None
    resource_type: str | None = None
    job_type: str | None = None
    harvester: str | None = None
    worker: int | None = None
    jobs: int = 1
    in_bulk: bool = False

    def at_queue_in(self, status: str | None) -> JobRequest:
        """The request at a queue in a status: one in test gets tests only."""
        return replace(self, label="test") if status == "test" and self.label in TESTED else self


@dataclass(frozen=True)
class JobConditions:
    """What a waiting job must meet in addition to the conditions of its task queue; limits of 0 and None do not count.

    Attributes:
        labels: production source label is one of these; None: any.
        processing_type: or it is of this processing type.
        job_labels: job label (or else the production source label) is one of these.
        memory_mb: most memory.
        disk_mb: most disk.
        walltime_s: most walltime.
        task: only this task.
        user: only this user.
    """

    labels: tuple[str, ...] | None = None
    processing_type: str | None = None
    job_labels: tuple[str, ...] | None = None
    memory_mb: int = 0
    disk_mb: int = 0
    walltime_s: int = 0
    task: int | None = None
    user: str | None = None


def read_form(form: Mapping[str, Any]) -> JobRequest:
    """The request in the fields of ``getJob``.

    Raises:
        RequestRefused: ``siteName`` is missing.
    """
    queue = optional(form.get("siteName"), text(128))
    if queue is None:
        raise RequestRefused("siteName is missing")
    jobs = optional(form.get("nJobs"), not_negative)
    return JobRequest(
        queue,
        label=optional(form.get("prodSourceLabel"), text(20)),
        memory_mb=limit_of(form.get("mem")),
        disk_mb=limit_of(form.get("diskSpace")),
        remaining_s=limit_of(form.get("remaining_time")),
        node=optional(form.get("node"), text(128)),
        computing_element=optional(form.get("computingElement"), text(128)),
        scheduler=optional(form.get("schedulerID"), text(128)),
        task=optional(form.get("taskID"), not_negative),
        user=optional(form.get("prodUserID"), text(250)),
        resource_type=optional(form.get("resourceType"), text(56)),
        job_type=optional(form.get("jobType"), text(20)),
        harvester=optional(form.get("harvester_id"), text(50)),
        worker=optional(form.get("worker_id"), not_negative),
        jobs=min(max(jobs or 1, 1), MOST_JOBS),
        in_bulk=jobs is not None,
    )


def read_arguments(values: Mapping[str, Any]) -> JobRequest:
    """The request in the arguments of ``acquire_jobs``, whose types were checked."""
    return JobRequest(
        text(128)(values["site_name"]),
        label=optional(values.get("prod_source_label"), text(20)),
        memory_mb=limit_of(values.get("memory")),
        disk_mb=limit_of(values.get("disk_space")),
        remaining_s=limit_of(values.get("remaining_time")),
        node=optional(values.get("node"), text(128)),
        computing_element=optional(values.get("computing_element"), text(128)),
        scheduler=optional(values.get("scheduler_id"), text(128)),
        task=optional(values.get("task_id"), not_negative),
        user=optional(values.get("prod_user_id"), text(250)),
        resource_type=optional(values.get("resource_type"), text(56)),
        job_type=optional(values.get("job_type"), text(20)),
        harvester=optional(values.get("harvester_id") or values.get("scheduler_id"), text(50)),
        worker=optional(values.get("worker_id"), not_negative),
        jobs=min(max(int(values.get("n_jobs") or 1), 1), MOST_JOBS),
        in_bulk=True,
    )


def conditions_of(request: JobRequest) -> JobConditions:
    """What a job must meet to be given to the pilot."""
    labels, processing_type = LABELS.get(given(request.label) or "managed", (request.label or "",)), None
    if request.label == "test" and request.computing_element is not None:
        labels, processing_type = TEST_LABELS, GANGA_ROBOT
    job_labels = None
    if request.label == "test" and request.job_type is not None:
        job_labels = {"user": ANALYSIS, "panda": ANALYSIS, "managed": PRODUCTION}.get(request.job_type)
    return JobConditions(
        labels,
        processing_type,
        job_labels,
        request.memory_mb,
        request.disk_mb,
        request.remaining_s,
        request.task,
        request.user,
    )


def cpu_time_left_s(request: JobRequest, maxtime_s: float, corepower: float, cores: int) -> int | None:
    """Normalised CPU seconds (HS06 s) that the pilot has; None where they are unlimited or not known.

    Args:
        request: request of the pilot, with the walltime that its slot has left.
        maxtime_s: limit of the walltime at the queue; 0 without one.
        corepower: HS06 of a core at the queue; 0 when not known.
        cores: cores of a slot.
    """
    limits = [limit for limit in (request.remaining_s, maxtime_s) if limit > 0]
    if not limits or corepower <= 0:
        return None
    return int(min(limits) * corepower * max(cores, 1))
