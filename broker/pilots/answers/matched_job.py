"""The job that a pilot got, or the field that did not fit."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel

from broker.matching.specs.judge import Allotment, allotment, judge
from broker.matching.specs.node import Node
from broker.matching.specs.spec import OWN, JobSpecs
from broker.pilots.model.matcher import specs_of
from broker.pilots.statements.matches import Match, NoMatch


class MatchedJob(BaseModel):
    """The job given to the pilot; or null, and the reason.

    Attributes:
        pandaid: PanDA ID of the job; its status is ``sent``.
        jeditaskid: number of its task.
        task_queue: task queue where it waited.
        panda_queue: PanDA queue of the pilot.
        pool: SubmitPool of the job; null if there is none.
        reason: why there is no job; null if there is one.
        rejected: number of rejected task queues, by the first field that did not fit.
        node: for the reason ``retry elsewhere``: node of the pilot, where input of the jobs failed.
        held_until: when the first of these jobs may be given there again.
        repeated: whether this repeats the answer to an earlier request with this number.
        spec: position in canonical order of the job's spec that fits the node; null if it requests nothing.
        allotted: resources of the node that the job gets; null for those the node does not report.
    """

    pandaid: int | None
    jeditaskid: int | None
    task_queue: int | None
    panda_queue: str
    pool: str | None
    reason: str | None
    rejected: dict[str, int]
    node: str | None = None
    held_until: datetime | None = None
    repeated: bool = False
    spec: int | None = None
    allotted: Allotment | None = None


def matched_job(outcome: Match | NoMatch, repeated: bool = False, node: Node | None = None) -> MatchedJob:
    """The outcome of the matcher for a pilot at this node, as every interface returns it."""
    if isinstance(outcome, Match):
        job: dict[str, Any] = {name: getattr(outcome, name) for name in ("pandaid", "jeditaskid", "task_queue", "pool")}
        if outcome.specs is not None and node is not None:
            spec, allotted = _gets(specs_of(outcome.specs), node, outcome.place_tags, repeated=repeated)
            job |= {"spec": spec, "allotted": allotted}
        return MatchedJob(**job, panda_queue=outcome.panda_queue, reason=None, rejected={}, repeated=repeated)
    return MatchedJob(pandaid=None, jeditaskid=None, task_queue=None, pool=None, **vars(outcome))


def _gets(job: JobSpecs, node: Node, tags: frozenset[str], *, repeated: bool) -> tuple[int | None, Allotment | None]:
    """The spec that fits, and what the job gets. A job that was just given fits, so that a single spec is the one."""
    if len(job.specs) == 1 and not repeated:
        return 0, allotment(job.specs[0], node, OWN)
    verdict = judge(job, node.with_changes({"tags": node.tags | tags}))
    return verdict.spec, verdict.allotment
