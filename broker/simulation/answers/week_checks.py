"""Compare a span of a site's history with simulations of its tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from broker.simulation.model.calibration.estimate import Checked
from broker.simulation.model.calibration.site_fit import SiteFit, speeds_of
from broker.simulation.model.calibration.site_grid import traced_scenario
from broker.simulation.model.calibration.site_history import QueueRecord
from broker.simulation.model.calibration.trace import Trace, trace_of
from broker.simulation.model.calibration.week_check import Forecast, checked, forecasts, model_spread, queue_records
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.generated_grid import GridParameters
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.policies.base import find_policy
from broker.simulation.statements.site_history import site_history
from broker.store.connection.tables import Names

#: Days before the span whose tasks fill the queues; the last of them measures the error of the simulation.
BEFORE_DAYS = 3.0
DAY_S = 86_400.0


@dataclass(frozen=True)
class CheckRequest:
    """A requested comparison: ``since`` to ``until`` (aware), with the policy of the site, over seeds from 1 on."""

    since: datetime
    until: datetime
    policy: str
    seeds: int


def check_week(
    connection: sa.Connection,
    names: Names,
    fit: SiteFit,
    request: CheckRequest,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[list[Forecast], Checked]:
    """The cells of the span, and their summary.

    Raises:
        SimulationError: no task arrived, no job ended, or none of its queues is one of the fit.
    """
    where = f"{request.since:%Y-%m-%d %H:%M} to {request.until:%Y-%m-%d %H:%M}"
    measured = site_history(connection, names, request.since, request.until)
    begin = request.since - timedelta(days=BEFORE_DAYS)
    trace = trace_of(site_history(connection, names, begin, request.until, speeds_of(fit)), fit)
    known = {queue.name for queue in fit.queues}
    if not trace.tasks or not any(queue.name in known for queue in measured.queues):
        raise SimulationError("no task came, or no job ended at a queue of the grid", where, "take another span")
    days = (request.until - begin).total_seconds() / DAY_S
    records = simulated(fit, trace, days, request, progress)
    day_before = site_history(connection, names, request.since - timedelta(days=1), request.since)
    model_s = model_spread(forecasts(day_before.queues, [before for before, _ in records], DAY_S))
    cells = forecasts(measured.queues, [inside for _, inside in records], measured.length_s, model_s)
    return cells, checked(cells, where, request.policy, request.seeds)


def simulated(
    fit: SiteFit, trace: Trace, days: float, request: CheckRequest, progress: Callable[[int], None]
) -> list[tuple[list[QueueRecord], list[QueueRecord]]]:
    """Records of the queues in each simulation of a trace: on the day before the span, and in the span."""
    parameters = GridParameters(days=days, nuclei=max(1, len(fit.queues) // 4), warm_up_s=BEFORE_DAYS * DAY_S)
    records = []
    for seed in range(1, request.seeds + 1):
        scenario = traced_scenario(fit, trace, parameters, "check", seed)
        run = ClosedLoop(scenario, find_policy(request.policy), seed).run()
        begin_s = BEFORE_DAYS * DAY_S
        records.append((queue_records(run, begin_s - DAY_S, begin_s), queue_records(run, begin_s, days * DAY_S)))
        progress(seed)
    return records
