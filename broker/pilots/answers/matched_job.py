"""The job that a pilot got, or the field that did not fit."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from broker.matching.specs.judge import judge
from broker.matching.specs.node import Node
from broker.pilots.model.matcher import specs_of
from broker.pilots.statements.matches import Match, NoMatch


class AllottedNode(BaseModel):
    """What the job gets of the node of its pilot; null: the node does not tell what it has.

    Attributes:
        spec: of the job that fits: its place among them in canonical order.
        cores: that it gets.
        ram_mb: that it requests with so many cores.
        ram_limit_mb: at which it is to be stopped.
        gpus: that it gets.
        scratch_mb: that it asks for.
    """

    spec: int
    cores: int | None
    ram_mb: int | None
    ram_limit_mb: int | None
    gpus: int
    scratch_mb: int | None


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
        repeated: whether it is the answer to an earlier request of this number.
        allotted: of the node; null where the job asks nothing of it.
    """

    pandaid: int | None
    jeditaskid: int | None
    task_queue: int | None
    panda_queue: str
    pool: str | None
    reason: str | None
    rejected: dict[str, int]
    repeated: bool = False
    allotted: AllottedNode | None = None


def matched_job(found: Match | NoMatch, repeated: bool = False, node: Node | None = None) -> MatchedJob:
    """What the matcher found for a pilot at this node, as every interface gives it."""
    if isinstance(found, Match):
        given: dict[str, Any] = {name: getattr(found, name) for name in ("pandaid", "jeditaskid", "task_queue", "pool")}
        return MatchedJob(
            **given,
            panda_queue=found.panda_queue,
            reason=None,
            rejected={},
            repeated=repeated,
            allotted=_allotted(found, node),
        )
    return MatchedJob(
        pandaid=None,
        jeditaskid=None,
        task_queue=None,
        panda_queue=found.panda_queue,
        pool=None,
        reason=found.reason,
        rejected=found.rejected,
    )


def _allotted(found: Match, node: Node | None) -> AllottedNode | None:
    if found.specs is None or node is None:
        return None
    verdict = judge(specs_of(found.specs), node)
    if verdict.spec is None or verdict.allotment is None:
        return None  # the node that asked first had something else
    return AllottedNode(spec=verdict.spec, **vars(verdict.allotment))
