"""``broker simulate``: compare policies on a simulated grid."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer

from broker.cli.context import duration
from broker.cli.output import remark
from broker.simulation.answers.simulated_agents import simulate_through_database
from broker.simulation.commands.case_checkpoints import CaseCheckpoints
from broker.simulation.commands.checking import show_errors
from broker.simulation.commands.documents import simulation_request
from broker.simulation.commands.policies import wanted_policies
from broker.simulation.commands.running import run_cases, show
from broker.simulation.commands.stored_grid import snapshot_of
from broker.simulation.commands.storing import check_store, store_simulation
from broker.simulation.model.calibration.calibrated_grid import CalibratedChoice
from broker.simulation.model.calibration.trace import Trace, read_trace
from broker.simulation.model.comparing import CaseResult, Comparison, ScenarioOf, compare, simulate_case
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.generated_grid import GridParameters
from broker.simulation.model.grids import FRESH, GRIDS, USUAL
from broker.simulation.model.intervals import FEWEST_SEEDS
from broker.simulation.model.plot import plot_curves, plot_differences
from broker.simulation.model.scenario import Ages
from broker.simulation.model.scenario_file import GridChoice, read_packed, read_scenario
from broker.simulation.model.snapshot_grid import grid_of_snapshot
from broker.whatif.commands.what_if import cores

#: Suffixes of the files that --grid accepts.
FILES = (".yaml", ".yml", ".gz")

OwnProfiles = Annotated[
    list[Path] | None,
    typer.Option("--profile", metavar="FILE", help="A policy by the site's own profile; repeat to compare."),
]
Values = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A gdpconfig value for all policies by a profile; repeat."),
]
GridOrFile = Annotated[
    str, typer.Option("--grid", metavar="NAME|FILE", help=f"A file of calibrate, or one of {', '.join(GRIDS)}.")
]

FirstSeed = Annotated[int, typer.Option("--seed-from", min=0, help="The first seed.")]
Load = Annotated[float | None, typer.Option("--load", help="Work offered over capacity; default: that of the grid.")]
WarmUp = Annotated[
    str | None,
    typer.Option("--warm-up", metavar="LENGTH", help="Left out of the figures, such as 8h [a third]."),
]
StoredGrid = Annotated[
    str | None,
    typer.Option("--snapshot", metavar="ID|newest|FILE", help="The grid of a stored snapshot, its work generated."),
]
ThroughDatabase = Annotated[
    bool, typer.Option("--through-database", help="The agents themselves decide, on a database created for each run.")
]
TraceFile = Annotated[
    Path | None,
    typer.Option(
        "--trace", metavar="FILE", help="Tasks as they arrived, of calibrate --trace; with --grid FILE (.gz)."
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Keep each finished simulation here, and resume from those present."),
]
PlotFolder = Annotated[Path | None, typer.Option("--plot", metavar="DIR", help="Draw curves into this folder.")]
Processes = Annotated[int | None, typer.Option("--processes", min=1, help="Processes; default: cores.")]
ScenarioFile = Annotated[Path | None, typer.Option("--scenario", metavar="FILE", help="A scenario in YAML.")]
Scheduler = Annotated[str | None, typer.Option("--dask", metavar="ADDRESS", help="Scheduler of a Dask cluster.")]


def simulate(
    context: typer.Context,
    policy: Annotated[list[str] | None, typer.Option("--policy", help="A policy; repeat to compare.")] = None,
    profile: OwnProfiles = None,
    values: Values = None,
    days: Annotated[float | None, typer.Option("--days", help="Days of virtual time, the first for warm-up.")] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds.")] = FEWEST_SEEDS,
    first_seed: FirstSeed = 1,
    load: Load = None,
    warm_up: WarmUp = None,
    grid: GridOrFile = USUAL,
    queues: Annotated[int, typer.Option("--queues", min=1, help="Queues of the grid.")] = 20,
    cores_total: Annotated[int, typer.Option("--cores", min=1, help="Cores of the grid.")] = 4000,
    scenario: ScenarioFile = None,
    snapshot: StoredGrid = None,
    trace: TraceFile = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Policies see the grid as it is now.")] = False,
    processes: Processes = None,
    through_database: ThroughDatabase = False,
    dask: Scheduler = None,
    out: Folder = None,
    plot: PlotFolder = None,
    store: Annotated[bool, typer.Option("--store", help="Keep the figures, for the web page and the API.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One object per policy.")] = False,
) -> None:
    """Compare policies on a simulated grid: a table of figures with intervals over seeds."""
    began_s = monotonic()
    wanted = wanted_policies(policy or [], profile or [], values or [], through_database)
    if snapshot is not None and scenario is not None:
        raise SimulationError("--snapshot and --scenario are two grids", "broker simulate", "give one of them")
    tasks = None if trace is None else read_trace(read_packed(trace), str(trace))
    length = tasks.days if tasks is not None and days is None else days
    size = size_of(length, queues, cores_total, load, warm_up, fresh=fresh)
    grid_of_seed = grid_of(scenario, grid, size) if snapshot is None else _stored(context, snapshot, size)
    grid_of_seed = grid_of_seed if tasks is None else replayed(grid_of_seed, tasks)
    first_scenario = grid_of_seed(first_seed)  # a scenario that cannot run is refused before anything starts
    labels = [one.label for one in wanted]
    request = simulation_request(first_scenario, str(snapshot or scenario or grid), labels, seeds, through_database)
    if store:
        check_store(context)
    cases = [one.case(grid_of_seed, seed) for seed in range(first_seed, first_seed + seeds) for one in wanted]
    run = simulate_through_database if through_database else simulate_case
    results = run_cases(cases, processes or cores(), dask, None if out is None else CaseCheckpoints(out), run)
    comparisons = compare(results)
    show(comparisons, results, json, 0.0 if first_scenario.closed else first_scenario.warm_up_s)
    show_errors(grid_of_seed, comparisons, json)
    _draw(results, comparisons, plot)
    if store:
        number = store_simulation(context, request, comparisons, results, monotonic() - began_s)
        remark(f"stored: simulation {number}, page /simulations/{number}")


def _draw(results: Sequence[CaseResult], comparisons: Sequence[Comparison], folder: Path | None) -> None:
    for path in () if folder is None else (*plot_curves(results, folder), *plot_differences(comparisons, folder)):
        remark(f"written: {path}")


@dataclass(frozen=True)
class GridSize:
    """Size and load of a grid, from the options.

    Attributes:
        parameters: parameters of a generated grid; without a load, that of the grid applies.
        changes: fields of the scenario that are set afterwards.
        option_names: given options that a scenario with a size of its own does not accept.
    """

    parameters: GridParameters
    changes: tuple[tuple[str, Any], ...] = ()
    option_names: tuple[str, ...] = ()


def size_of(
    days: float | None, queues: int, cores: int, load: float | None = None, warm_up: str | None = None, *,
    fresh: bool = False,
) -> GridSize:  # fmt: skip
    """The size of a grid; the default warm-up is a third of the time, at most a day.

    Args:
        days: days of virtual time, None for three.
        queues: queues of the grid.
        cores: cores of all queues.
        load: work offered over capacity, None for that of the grid.
        warm_up: a length of time as given on the command line.
        fresh: whether policies see the grid as it is now.

    Raises:
        NotADuration: the warm-up is no duration.
    """
    length = 3.0 if days is None else days
    warm_up_s = min(86_400.0, length * 86_400.0 / 3.0)
    if warm_up is not None:
        warm_up_s = duration(warm_up, "--warm-up").total_seconds()
    nuclei = max(1, min(12, queues // 4))
    options = {"--days": days, "--load": load, "--warm-up": warm_up, "--fresh": fresh or None}
    return GridSize(
        GridParameters(days=length, queues=queues, cores=cores, nuclei=nuclei, load=load, warm_up_s=warm_up_s),
        (("ages", FRESH),) if fresh else (),
        tuple(name for name, value in options.items() if value is not None),
    )


def replayed(grid: ScenarioOf, trace: Trace) -> ScenarioOf:
    """The grid with the tasks of a trace in place of drawn ones.

    Raises:
        SimulationError: the grid is no calibrated grid of a site.
    """
    if not isinstance(grid, CalibratedChoice):
        raise SimulationError("--trace needs a calibrated grid", "--grid", "give a file of broker calibrate --since")
    return dataclasses.replace(grid, trace=trace)


def _stored(context: typer.Context, name: str, size: GridSize) -> ScenarioOf:
    snapshot, sources = snapshot_of(context, name)
    return grid_of_snapshot(snapshot, size.parameters, size.changes, sources)


def grid_of(path: Path | None, grid: str, size: GridSize) -> ScenarioOf:
    """The grid of a scenario file, of a calibration, or of a name.

    Args:
        path: path of a scenario, which has its own size; None for none.
        grid: a name, or a file of ``broker calibrate``.
        size: size of the grid.

    Raises:
        SimulationError: the file cannot be read, or a size is given together with a scenario.
    """
    if path is None and grid not in GRIDS and Path(grid).suffix in FILES:
        return _of_file(Path(grid), size)
    if path is None:
        return GridChoice(grid, size.parameters, size.changes)
    text = read_packed(path)
    if size.option_names:
        raise SimulationError(
            f"{', '.join(size.option_names)} belong to generated grids",
            str(path),
            "set days, work, warm_up_s and ages in the file",
        )
    return read_scenario(text, str(path))


def _of_file(path: Path, size: GridSize) -> ScenarioOf:
    """A calibrated grid with the size of the options; values of its file take precedence, except over a given load."""
    choice = read_scenario(read_packed(path), str(path))
    if not isinstance(choice, CalibratedChoice):
        raise SimulationError("the file holds no calibrated grid", str(path), "give it with --scenario")
    usual = GridParameters()
    overrides = {name: value for name, value in vars(choice.parameters).items() if value != getattr(usual, name)}
    if size.parameters.load is not None:
        overrides["load"] = size.parameters.load
    parameters = dataclasses.replace(size.parameters, **overrides)
    return dataclasses.replace(choice, parameters=parameters, ages=FRESH if size.changes else Ages())
