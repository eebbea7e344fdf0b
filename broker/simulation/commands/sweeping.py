"""``broker sweep --simulate``: judge a tuning key by its consequences on a simulated grid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import typer

from broker.cli.context import require
from broker.cli.output import remark
from broker.gdpconfig.proposals import Proposal
from broker.simulation.commands.case_checkpoints import CaseCheckpoints
from broker.simulation.commands.documents import simulation_request
from broker.simulation.commands.running import run_cases, show
from broker.simulation.commands.simulate import FILES, grid_of, size_of
from broker.simulation.commands.storing import check_store, store_simulation
from broker.simulation.model.calibration.calibrated_grid import CalibratedChoice
from broker.simulation.model.comparing import Case, ScenarioOf, compare
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.generated_grid import GridParameters
from broker.simulation.model.grids import GRIDS
from broker.simulation.model.real.brokered import read_own_profile
from broker.simulation.model.scenario_file import GridChoice, read_packed, read_scenario

#: The grid on which values are compared: full enough that limits bind.
GRID = GridChoice("full", GridParameters(days=1.0, queues=20, cores=4000, nuclei=5, warm_up_s=28_800.0))
SIZE = size_of(GRID.parameters.days, GRID.parameters.queues, GRID.parameters.cores, warm_up="8h")
BASELINE = "baseline"
#: Profile that decides if no own one is given.
PROFILE = "seed"


def _sides(points: Sequence[tuple[Proposal, ...]]) -> list[tuple[str, tuple[tuple[str, object], ...]]]:
    """The shipped tuning and each point, with their labels."""
    labelled = [(", ".join(f"{value.key}={value.value}" for value in point), point) for point in points]
    return [(BASELINE, ()), *((label, tuple((one.key, one.value) for one in point)) for label, point in labelled)]


def named_grid(name: str) -> ScenarioOf:
    """A grid by its name, with the size of :data:`GRID`, or a calibrated grid or scenario in a file.

    Raises:
        SimulationError: there is no such grid, or the file cannot be read.
    """
    if name in GRIDS:
        return GridChoice(name, GRID.parameters)
    if not name.endswith(FILES):
        raise SimulationError(
            f"no grid is called {name}", "--grid", f"take one of {', '.join(GRIDS)}, or a file ({', '.join(FILES)})"
        )
    scenario = read_scenario(read_packed(Path(name)), name)
    return grid_of(None, name, SIZE) if isinstance(scenario, CalibratedChoice) else scenario


def sweep_simulated(
    points: Sequence[tuple[Proposal, ...]],
    seeds: int,
    processes: int,
    dask: str | None,
    json: bool,
    grid: tuple[str, ScenarioOf] | None = None,
    own_profile: Path | None = None,
    out: Path | None = None,
    store_in: typer.Context | None = None,
) -> None:
    """Print the figures of the shipped tuning, and of each point against it, paired by seed.

    Args:
        points: the values of each point.
        seeds: number of seeds of each point, from 1 on.
        processes: number of parallel processes.
        dask: address of a scheduler, None to work locally.
        json: print one object a point instead of a table.
        grid: name and grid to simulate; None for :data:`GRID`.
        own_profile: file with the profile that decides; None for the profile ``seed``.
        out: folder that keeps finished simulations; None keeps none.
        store_in: command whose database stores the figures; None stores nothing.

    Raises:
        ExtraMissing: the packages of the extra ``simulate`` are not installed.
        SimulationError: the grid cannot be simulated.
        BrokerError: the figures cannot be stored.
    """
    require("simulate")
    began_s = monotonic()
    if store_in is not None:
        check_store(store_in)
    sides = _sides(points)
    name, grid_of_seed = grid or (GRID.grid, GRID)
    profile = None if own_profile is None else read_own_profile(own_profile)
    policy = PROFILE if profile is None else profile.profile
    first_scenario = grid_of_seed(1)  # a grid that cannot run is refused before anything starts
    seeded = [(seed, label, values) for seed in range(1, seeds + 1) for label, values in sides]
    cases = [Case(label, policy, seed, grid_of_seed, values, profile) for seed, label, values in seeded]
    results = run_cases(cases, processes, dask, None if out is None else CaseCheckpoints(out))
    comparisons = compare(results)
    show(comparisons, results, json, first_scenario.warm_up_s)
    if store_in is None:
        return
    request = simulation_request(
        first_scenario, f"sweep on {name}", [label for label, _ in sides], seeds, through_database=False
    )
    number = store_simulation(store_in, request, comparisons, results, monotonic() - began_s)
    remark(f"stored: simulation {number}, page /simulations/{number}")
