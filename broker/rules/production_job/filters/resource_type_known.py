"""PanDA ends the brokerage of a task without a resource type at the first queue with jobs of the task's work queue."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Bools, Floats, GroupFilter, JobPairs, Observation, Reason, number


class ResourceTypeKnown(GroupFilter[JobPairs]):
    """Keeps no queue for a task without a resource type while a remaining one has jobs of the task's work queue.

    PanDA joins the names of the types into a text where it counts jobs of the share, or of the Resource work queue, as
    it weighs the remaining candidates. Source: PanDA production brokerage, exceptions that end the brokerage of a
    chunk.
    """

    name = "resource_type_known"
    reason = Reason(
        code="resource_type_unset",
        title="the task has a resource type, where jobs of its work queue are counted by theirs",
        violation="The task has no resource type, and jobs of its work queue are counted by theirs",
        no_candidate="can be judged, as the task has no resource type",
        who="ask",
        cure="Operators set the resource type of the task.",
    )
    sources = ("jobs",)
    unknown_policy = "keep"
    after_temporary = True
    provenance = "PanDA production brokerage, exceptions that end the brokerage of a chunk"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks of tasks without a resource type."""
        return np.asarray([[kind is None] for kind in pairs.chunks.resource_type.ravel().tolist()], dtype=np.bool_)

    def keep_among(self, alive: Bools, pairs: JobPairs) -> Bools:
        """(T, Q): False for all candidates of a chunk with counted jobs at a remaining one."""
        has_jobs = (alive & (_counted(pairs) > 0)).any(axis=1, keepdims=True)
        return np.broadcast_to(~has_jobs, alive.shape)

    def observe(self, pairs: JobPairs) -> Observation:
        """Jobs of the task's work queue at this queue."""
        return Observation(number(_counted(pairs)), "<=", 0.0, "jobs", "task.resource_type")


def _counted(pairs: JobPairs) -> Floats:
    """(T, Q): jobs of the task's share or Resource work queue."""
    known = pairs.facts
    return np.asarray(known.defined + known.assigned + known.activated + known.starting + known.running)
