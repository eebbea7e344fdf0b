"""The HTTP API of pilot factories: workers of each kind that a queue can use."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Path, Response
from pydantic import BaseModel
from starlette.requests import Request

from agents.service import registry
from broker.access.policies import FACTORY
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import After, Limit, Page, answer, slice_of
from broker.api.problems import Problem
from broker.api.state import State
from broker.pilots.answers.pilot_demand import QueueDemand, pilot_demand
from broker.pilots.statements import demand
from broker.pilots.statements.demand import DemandLine
from broker.store.reads.grid_names import queue_is_known

router = guarded_router(tag="factories")


class Demand(BaseModel):
    """The work of a queue.

    Attributes:
        queue: the PanDA queue.
        now: time of the count.
        last_cycle_at: start of the last cycle that placed jobs; null if there was none.
        lines: kinds of jobs, most activated jobs first.
        pilots: new pilots that the queue could use, by resource type, as last counted by the agent pilot_demand, and
            why.
    """

    queue: str
    now: datetime
    last_cycle_at: datetime | None
    lines: list[DemandLine]
    pilots: list[QueueDemand]


@router.get("/queues/{queue}/demand", response_model=Demand)
@allow(FACTORY)
def get_demand(
    request: Request, api: State, queue: Annotated[str, Path(max_length=200, description="PanDA queue.")]
) -> Response:
    """Get how many workers of each kind a queue can use."""
    with api.database.begin() as connection:
        if not queue_is_known(connection, api.database.names, queue):
            raise Problem(404, "no_such_queue", f"there is no queue {queue[:100]}")
        began = demand.last_cycle(connection, list(registry.BROKERAGES))
        lines = demand.demand_of(connection, api.database.names, queue, began)
        pilots = pilot_demand(connection, api.database.names, queue)
    queue_demand = Demand(queue=queue, now=api.now(), last_cycle_at=began, lines=lines, pilots=pilots)
    return answer(request, queue_demand, items="lines")


@router.get("/pilot-demand", response_model=Page[QueueDemand])
@allow(FACTORY)
def list_pilot_demand(request: Request, api: State, after: After = None, limit: Limit = 100) -> Response:
    """List how many new pilots each queue could use, by kind, as last counted by the agent pilot_demand, and why."""
    with api.database.begin() as connection:
        demands = pilot_demand(connection, api.database.names)
    return answer(request, slice_of(demands, after, limit))
