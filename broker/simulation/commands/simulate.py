"""``broker simulate``: policies compared on a simulated grid."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from broker.cli.output import print_json, print_table, remark
from broker.simulation.answers.figures_of_merit import FIGURES, cell, sentence
from broker.simulation.answers.simulated_agents import simulate_through_database
from broker.simulation.commands.documents import asked_of, policy_document
from broker.simulation.commands.policies import wanted_policies
from broker.simulation.commands.stored_grid import snapshot_of
from broker.simulation.commands.storing import check_store, store_simulation
from broker.simulation.model.calibration.calibrated_grid import CalibratedChoice
from broker.simulation.model.comparing import (
    CaseResult,
    Comparison,
    ScenarioOf,
    compare,
    simulate_all,
    simulate_case,
)
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.generated_grid import GridParameters
from broker.simulation.model.grids import FRESH, GRIDS
from broker.simulation.model.intervals import FEWEST_SEEDS
from broker.simulation.model.plot import plot_curves
from broker.simulation.model.scenario import Ages
from broker.simulation.model.scenario_file import GridChoice, read_packed, read_scenario
from broker.simulation.model.snapshot_grid import grid_of_snapshot
from broker.whatif.commands.what_if import cores

#: How the names of files end that --grid takes.
FILES = (".yaml", ".yml", ".gz")
#: What the table shows.
SHOWN = (
    "delivered", "finish_mean_s", "wait_mean_s", "wait_95_s", "use", "wan_bytes_job", "failed", "rebrokered",
    "share_deviation", "jain",
)  # fmt: skip


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


def simulate(
    context: typer.Context,
    policy: Annotated[list[str] | None, typer.Option("--policy", help="A policy; repeat to compare.")] = None,
    profile: OwnProfiles = None,
    values: Values = None,
    days: Annotated[float | None, typer.Option("--days", help="Days of virtual time, the first for warm-up.")] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Seeds, from 1 on.")] = FEWEST_SEEDS,
    grid: GridOrFile = "generated",
    queues: Annotated[int, typer.Option("--queues", min=1, help="Queues of the grid.")] = 20,
    cores_total: Annotated[int, typer.Option("--cores", min=1, help="Cores of the grid.")] = 4000,
    scenario: Annotated[Path | None, typer.Option("--scenario", metavar="FILE", help="A scenario in YAML.")] = None,
    snapshot: Annotated[
        str | None,
        typer.Option("--snapshot", metavar="ID|newest|FILE", help="The grid of a stored snapshot, its work generated."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Policies see the grid as it is now.")] = False,
    processes: Annotated[int | None, typer.Option("--processes", min=1, help="Processes; default: cores.")] = None,
    through_database: Annotated[
        bool, typer.Option("--through-database", help="The agents themselves decide, on a database made for each run.")
    ] = False,
    dask: Annotated[str | None, typer.Option("--dask", metavar="ADDRESS", help="Scheduler of a Dask cluster.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="DIR", help="Draw curves into this folder.")] = None,
    store: Annotated[bool, typer.Option("--store", help="Keep the figures, for the web page and the API.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One object a policy.")] = False,
) -> None:
    """Policies compared on a simulated grid: a table of figures with intervals over seeds."""
    began_s = monotonic()
    wanted = wanted_policies(policy or [], profile or [], values or [], through_database)
    if snapshot is not None and scenario is not None:
        raise SimulationError("--snapshot and --scenario are two grids", "broker simulate", "give one of them")
    size = days, queues, cores_total, fresh
    made = _scenario(scenario, grid, *size) if snapshot is None else _stored(context, snapshot, *size)
    drawn = made(1)  # a scenario that cannot run is refused before anything starts
    labels = [one.label for one in wanted]
    asked = asked_of(drawn, str(snapshot or scenario or grid), labels, seeds, through_database)
    if store:
        check_store(context)
    cases = [one.case(made, seed) for seed in range(1, seeds + 1) for one in wanted]
    with progress(len(cases)) as emit:
        run = simulate_through_database if through_database else simulate_case
        results = simulate_all(cases, processes or cores(), emit, dask, run)
    comparisons = compare(results)
    show(comparisons, results, json)
    if plot is not None:
        for path in plot_curves(results, plot):
            remark(f"written: {path}")
    if store:
        number = store_simulation(context, asked, comparisons, results, monotonic() - began_s)
        remark(f"stored: simulation {number}, page /simulations/{number}")


def _stored(
    context: typer.Context, name: str, days: float | None, queues: int, cores_total: int, fresh: bool
) -> ScenarioOf:
    return grid_of_snapshot(snapshot_of(context, name), _parameters(days, queues, cores_total), _changes(fresh))


def _scenario(
    path: Path | None, grid: str, days: float | None, queues: int, cores_total: int, fresh: bool
) -> ScenarioOf:
    if path is None and grid not in GRIDS and Path(grid).suffix in FILES:
        return _of_file(Path(grid), _parameters(days, queues, cores_total), fresh)
    if path is None:
        return GridChoice(grid, _parameters(days, queues, cores_total), _changes(fresh))
    text = read_packed(path)
    if days is not None or fresh:
        raise SimulationError(
            "--days and --fresh belong to generated grids", str(path), "set days and ages in the file"
        )
    return read_scenario(text, str(path))


def _of_file(path: Path, size: GridParameters, fresh: bool) -> ScenarioOf:
    """A calibrated grid of the size of the options, but for what its file says; any other scenario as it is there."""
    found = read_scenario(read_packed(path), str(path))
    if not isinstance(found, CalibratedChoice):
        raise SimulationError("the file holds no calibrated grid", str(path), "give it with --scenario")
    usual = GridParameters()
    said = {name: value for name, value in vars(found.parameters).items() if value != getattr(usual, name)}
    ages = FRESH if fresh else Ages()
    return dataclasses.replace(found, parameters=dataclasses.replace(size, **said), ages=ages)


def _parameters(days: float | None, queues: int, cores_total: int) -> GridParameters:
    length = 3.0 if days is None else days
    nuclei = max(1, min(12, queues // 4))
    warm_up_s = min(86_400.0, length * 86_400.0 / 3.0)
    return GridParameters(days=length, queues=queues, cores=cores_total, nuclei=nuclei, warm_up_s=warm_up_s)


def _changes(fresh: bool) -> tuple[tuple[str, Ages], ...]:
    return (("ages", FRESH),) if fresh else ()


@contextmanager
def progress(cases: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr over so many simulations; nothing where stderr is no terminal."""
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=cases)
        yield lambda done: bar.update(task, completed=done)


def show(comparisons: Sequence[Comparison], results: Sequence[CaseResult], json: bool) -> None:
    """Print the comparison: as a table, or one object a policy."""
    if json:
        for one in comparisons:
            print_json(policy_document(one, results))
        return
    rows = [(one.label, *(_cell(one, name) for name in SHOWN)) for one in comparisons]
    seeds = len(comparisons[0].seeds) if comparisons else 0
    title = (
        f"mean +- half-width of the 95 % interval, {seeds} seed(s); * differs from {comparisons[0].label}, paired; "
        "delivered and task h decide, the others after Holm"
    )
    print_table(("policy", *(FIGURES[name].title for name in SHOWN)), rows, title=title)
    for one in comparisons[1:]:
        remark(sentence(one, comparisons[0]))
    if seeds < FEWEST_SEEDS:
        remark(f"note: {seeds} seed(s) tell little: take at least {FEWEST_SEEDS}")


def _cell(one: Comparison, name: str) -> str:
    mean = one.means[name]
    return f"{cell(name, mean.mean, mean.half_width)}{'*' if name in one.told else ''}"
