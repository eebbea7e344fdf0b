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
    """The job that the pilot got; or null, and why.

    Attributes:
        pandaid: of the job; its status is ``sent``.
        jeditaskid: of its task.
        task_queue: where it waited.
        panda_queue: of the pilot.
        pool: SubmitPool of the job; null without.
        reason: why there is no job; null when there is.
        rejected: task queues that failed, by the first field that did not fit.
        node: for the reason ``retry elsewhere`` the node of the pilot, at which input of the jobs failed.
        held_until: when the first of these jobs is given there again.
        repeated: whether it is the answer to an earlier request of this number.
        spec: of what the job asks of a node the one that fits, by its place in canonical order; null: it asks nothing.
        allotted: what the job gets of the node; what the node does not tell is null.
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


def matched_job(found: Match | NoMatch, repeated: bool = False, node: Node | None = None) -> MatchedJob:
    """What the matcher found for a pilot at this node, as every interface gives it."""
    if isinstance(found, Match):
        given: dict[str, Any] = {name: getattr(found, name) for name in ("pandaid", "jeditaskid", "task_queue", "pool")}
        if found.specs is not None and node is not None:
            spec, allotted = _gets(specs_of(found.specs), node, found.place_tags, repeated=repeated)
            given |= {"spec": spec, "allotted": allotted}
        return MatchedJob(**given, panda_queue=found.panda_queue, reason=None, rejected={}, repeated=repeated)
    return MatchedJob(pandaid=None, jeditaskid=None, task_queue=None, pool=None, **vars(found))


def _gets(job: JobSpecs, node: Node, tags: frozenset[str], *, repeated: bool) -> tuple[int | None, Allotment | None]:
    """The spec that fits, and what the job gets. One that was just given fits, so that a single spec is the one."""
    if len(job.specs) == 1 and not repeated:
        return 0, allotment(job.specs[0], node, OWN)
    verdict = judge(job, node.with_changes({"tags": node.tags | tags}))
    return verdict.spec, verdict.allotment
