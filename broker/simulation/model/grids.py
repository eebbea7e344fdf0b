"""The grids on which policies are compared, by name: two named by year, and others with one fault each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from broker.simulation.model import stresses
from broker.simulation.model.coming_tasks import generate_long
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.generated_grid import GridParameters, generate
from broker.simulation.model.grid_2026 import generate_2026
from broker.simulation.model.scenario import Ages, Outage, Scenario
from broker.simulation.model.scenario_checks import check

FRESH = Ages(0.0, 0.0, 0.0, 0.0)


def _quiet(parameters: GridParameters, usual_load: float) -> GridParameters:
    """The parameters without random outages, and with the usual load of the grid if none is given."""
    load = usual_load if parameters.load is None else parameters.load
    return dataclasses.replace(parameters, load=load, outage_mean_days=0.0)


def _full(parameters: GridParameters, seed: int) -> Scenario:
    return generate(_quiet(parameters, 1.1), seed)


def _outage(parameters: GridParameters, seed: int) -> Scenario:
    """The largest site is down without notice for a quarter of the time, from the middle on."""
    scenario = generate(_quiet(parameters, 0.8), seed)
    cores = [sum(q.cores for q in scenario.queues if q.site == site) for site in range(len(scenario.sites))]
    largest = cores.index(max(cores))
    queues = tuple(number for number, queue in enumerate(scenario.queues) if queue.site == largest)
    outage = Outage(queues, 0.5 * scenario.end_s, 0.75 * scenario.end_s)
    return check(dataclasses.replace(scenario, outages=(outage,)))


def _black_hole(parameters: GridParameters, seed: int) -> Scenario:
    """The queue of median size fails nine of ten jobs within a hundredth of their time."""
    scenario = generate(_quiet(parameters, 0.8), seed)
    order = sorted(range(len(scenario.queues)), key=lambda number: scenario.queues[number].cores)
    hole = order[len(order) // 2]
    queues = list(scenario.queues)
    queues[hole] = dataclasses.replace(queues[hole], failure_rate=0.9, fails_after=0.01)
    return check(dataclasses.replace(scenario, queues=tuple(queues)))


def _wrong_corepower(parameters: GridParameters, seed: int) -> Scenario:
    """True speeds spread by a factor of 1.8 around the published ones."""
    return generate(dataclasses.replace(_quiet(parameters, 0.8), speed_spread=0.6), seed)


GRIDS: dict[str, Callable[[GridParameters, int], Scenario]] = {
    "calm": stresses.calm,
    "full": _full,
    "outage": _outage,
    "black_hole": _black_hole,
    "wrong_corepower": _wrong_corepower,
    "flood": stresses.flood,
    "burst": stresses.burst,
    "old_statistics": stresses.old_statistics,
    "wrong_walltimes": stresses.wrong_walltimes,
    "recovery": stresses.recovery,
    "storage_out": stresses.storage_out,
    "link_out": stresses.link_out,
    "one_vo": stresses.one_vo,
    "2018": generate,
    "generated": generate,
    "2026": generate_2026,
    "2026_weeks": generate_long,
}
#: The default grid. ``generated`` is the older name of ``2018``.
USUAL = "2026"


def make_grid(name: str, parameters: GridParameters, seed: int) -> Scenario:
    """Make the grid of this name with the size of the parameters.

    Raises:
        SimulationError: no grid has this name.
    """
    if name not in GRIDS:
        raise SimulationError(f"no grid is called {name}", "", f"take one of {', '.join(GRIDS)}")
    return GRIDS[name](parameters, seed)
