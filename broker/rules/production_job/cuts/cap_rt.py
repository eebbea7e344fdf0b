"""Queues with too many waiting jobs of the resource types of a task get no more of them."""

from __future__ import annotations

import numpy as np

from broker.domain.waiting_limit import waiting_limit
from broker.rules.contract import Bools, Floats, Load, LoadCut, Observation, Reason, Value, flag, number
from broker.rules.production_job.cuts.cap import FAMILY, TIMES_RUNNING
from broker.snapshot.sources.task_resource_types import TASK_RESOURCE_TYPES


class CapRt(LoadCut):
    """Rejects queues with more waiting jobs of the task's resource types than twice the running and NQUEUELIMITSITE.

    The types are those of at least 20 % of the task's jobs at the queue, else the task's own; jobs of Resource work
    queues count only for those. Express chunks are exempt. Source: PanDA production brokerage, caps by resource type.
    """

    name = "cap_rt"
    reason = Reason(
        code="cap_rt",
        title="Not too many jobs of the share and resource type wait at the queue",
        violation="Enough jobs of the share and resource type wait at the queue already",
        no_candidate="has room for more waiting jobs of the resource type",
        who="wait",
        cure="Wait: the queue takes more as its jobs start. Operators may raise `NQUEUELIMITSITE`.",
    )
    keys = (FAMILY,)
    sources = ("jobs", TASK_RESOURCE_TYPES)
    provenance = "PanDA production brokerage, caps by resource type"

    @property
    def reads_details(self) -> bool:
        """True: jobs by resource type are details."""
        return True

    def keep(self, load: Load, weight: Floats) -> Bools:
        """Shape of ``load.running``: true where not too many jobs of the share and type wait, or it is unknown."""
        known = np.asarray(False) if load.details is None else load.details.typed_known
        return np.asarray((_waiting(load) <= _limit(load)) | ~known | load.urgent)

    def observe(self, load: Load, weight: Floats) -> Observation:
        """Waiting jobs of the types; no limit for express chunks."""
        limit = None if flag(np.asarray(load.urgent)) else number(_limit(load))
        inputs: dict[str, Value] = {"all_local": flag(load.all_local), "running": number(load.running)}
        return Observation(number(_waiting(load)), "<=", limit, "jobs", FAMILY, inputs)


def _waiting(load: Load) -> Floats:
    if load.details is None:
        return np.zeros_like(load.running)
    assigned = np.where(load.all_local, 0.0, load.details.typed_assigned)
    return np.asarray(load.details.typed_queued + assigned)


def _limit(load: Load) -> Floats:
    typed = 0.0 if load.details is None else load.details.typed_running
    return np.asarray(waiting_limit(load.queue_limit, TIMES_RUNNING, np.maximum(typed, load.running)))
