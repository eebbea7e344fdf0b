"""``broker simulate``: policies compared on a simulated grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from broker.cli.output import print_json, print_table, remark
from broker.cli.simulation.stored_grid import snapshot_of
from broker.cli.tuning.what_if import cores
from broker.simulation.comparing import Case, CaseResult, Comparison, ScenarioOf, compare, simulate_all
from broker.simulation.errors import SimulationError
from broker.simulation.generated_grid import GridParameters
from broker.simulation.grids import FRESH, GRIDS
from broker.simulation.intervals import FEWEST_SEEDS, Interval
from broker.simulation.plot import plot_curves
from broker.simulation.policies.base import find_policy
from broker.simulation.scenario import Ages
from broker.simulation.scenario_file import GridChoice, read_scenario
from broker.simulation.snapshot_grid import grid_of_snapshot

#: What the table shows, with the factor of its unit.
SHOWN = {
    "use": ("use %", 0.01),
    "useful_use": ("useful %", 0.01),
    "wait_median_s": ("wait min", 60.0),
    "wait_95_s": ("95 % min", 60.0),
    "finish_median_s": ("task h", 3600.0),
    "finish_95_s": ("95 % h", 3600.0),
    "tail": ("tail %", 0.01),
    "share_deviation": ("share dev %", 0.01),
    "jain": ("Jain %", 0.01),
    "wan_bytes_job": ("GB/job", 1e9),
    "failed": ("failed %", 0.01),
    "rebrokered": ("moved %", 0.01),
}


def simulate(
    context: typer.Context,
    policy: Annotated[list[str] | None, typer.Option("--policy", help="A policy; repeat to compare.")] = None,
    days: Annotated[float | None, typer.Option("--days", help="Days of virtual time, the first for warm-up.")] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Seeds, from 1 on.")] = FEWEST_SEEDS,
    grid: Annotated[str, typer.Option("--grid", help=f"One of {', '.join(GRIDS)}.")] = "generated",
    queues: Annotated[int, typer.Option("--queues", min=1, help="Queues of the grid.")] = 20,
    cores_total: Annotated[int, typer.Option("--cores", min=1, help="Cores of the grid.")] = 4000,
    scenario: Annotated[Path | None, typer.Option("--scenario", metavar="FILE", help="A scenario in YAML.")] = None,
    snapshot: Annotated[
        str | None,
        typer.Option("--snapshot", metavar="ID|newest|FILE", help="The grid of a stored snapshot, its work generated."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Policies see the grid as it is now.")] = False,
    processes: Annotated[int | None, typer.Option("--processes", min=1, help="Processes; default: cores.")] = None,
    dask: Annotated[str | None, typer.Option("--dask", metavar="ADDRESS", help="Scheduler of a Dask cluster.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="DIR", help="Draw curves into this folder.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One object a policy.")] = False,
) -> None:
    """Policies compared on a simulated grid: a table of figures with intervals over seeds."""
    wanted = policy or ["seed"]
    for name in wanted:
        find_policy(name)
    if snapshot is not None:
        if scenario is not None:
            raise SimulationError("--snapshot and --scenario are two grids", "broker simulate", "give one of them")
        made: ScenarioOf = grid_of_snapshot(
            snapshot_of(context, snapshot), _parameters(days, queues, cores_total), _changes(fresh)
        )
    else:
        made = _scenario(scenario, grid, days, queues, cores_total, fresh)
    made(1)  # a scenario that cannot run is refused before anything starts
    cases = [Case(name, name, seed, made) for seed in range(1, seeds + 1) for name in dict.fromkeys(wanted)]
    with progress(len(cases)) as emit:
        results = simulate_all(cases, processes or cores(), emit, dask)
    show(compare(results), results, json)
    if plot is not None:
        for path in plot_curves(results, plot):
            remark(f"written: {path}")


def _scenario(
    path: Path | None, grid: str, days: float | None, queues: int, cores_total: int, fresh: bool
) -> ScenarioOf:
    if path is None:
        return GridChoice(grid, _parameters(days, queues, cores_total), _changes(fresh))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SimulationError("the scenario cannot be read", str(path), str(error)) from error
    if days is not None or fresh:
        raise SimulationError(
            "--days and --fresh belong to generated grids", str(path), "set days and ages in the file"
        )
    return read_scenario(text, str(path))


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
            print_json(_document(one, [result for result in results if result.label == one.label]))
        return
    rows = [(one.label, *(_cell(one, name) for name in SHOWN)) for one in comparisons]
    seeds = len(comparisons[0].seeds) if comparisons else 0
    title = f"mean +- half-width of the 95 % interval, {seeds} seed(s); * differs from {comparisons[0].label}, paired"
    print_table(("policy", *(title for title, _ in SHOWN.values())), rows, title=title)
    if seeds < FEWEST_SEEDS:
        remark(f"note: {seeds} seed(s) tell little: take at least {FEWEST_SEEDS}")


def _cell(one: Comparison, name: str) -> str:
    unit = SHOWN[name][1]
    mean = one.means[name]
    differs = name in one.differences and one.differences[name].excludes_zero
    width = "" if math.isnan(mean.half_width) else f" +- {mean.half_width / unit:.3g}"
    return f"{mean.mean / unit:.3g}{width}{'*' if differs else ''}"


def _document(one: Comparison, results: Sequence[CaseResult]) -> dict[str, object]:
    return {
        "kind": "policy",
        "policy": one.label,
        "seeds": list(one.seeds),
        "figures": {name: _interval(found) for name, found in one.means.items()},
        "differences": {name: _interval(found) for name, found in one.differences.items()},
        "events": sum(result.events for result in results),
        "decide_s": sum(result.decide_s for result in results),
        "total_s": sum(result.total_s for result in results),
    }


def _interval(found: Interval) -> dict[str, object]:
    return {
        "mean": _finite(found.mean),
        "half_width": _finite(found.half_width),
        "values": found.values,
        "enough_seeds": found.enough_seeds,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
