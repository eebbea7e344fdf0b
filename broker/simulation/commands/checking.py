"""``broker calibrate --check`` against a site's own later span: the cells, and the error of the simulation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from broker.cli.output import print_json, print_table, remark
from broker.errors import FAILED
from broker.simulation.answers.figures_of_merit import FIGURES as FIGURES_OF_MERIT
from broker.simulation.answers.week_checks import CheckRequest, check_week
from broker.simulation.model.calibration.calibrated_grid import CalibratedChoice
from broker.simulation.model.calibration.calibration_file import write_calibration
from broker.simulation.model.calibration.estimate import LEAST_INSIDE, Checked
from broker.simulation.model.calibration.fit import Calibration
from broker.simulation.model.calibration.week_check import FIGURES, INSIDE, PARTS, Forecast
from broker.simulation.model.comparing import Comparison, ScenarioOf
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.policies.base import find_policy
from broker.store.connection.database import Database
from broker.store.scenarios.scenario_file import write_text

#: Figure of a cell whose error applies to a figure of merit.
ERROR_OF = {"use": "use", "wait_mean_s": "wait_p50_s", "failed": "failed"}
HEADS = ("queue", "figure", "jobs", "measured", "simulated", "80 % from", "to", "", "error")


def check_own(
    database: Database, calibration: Calibration, request: CheckRequest, out: Path | None, json: bool
) -> None:
    """Print each cell and their summary; exit with status 1 if too few lie in their interval.

    Args:
        database: database with the site's tables.
        calibration: calibration with the site's queues.
        request: the span, the policy and the seeds.
        out: file to which the calibration is written with its errors, None for none.
        json: print one object a cell.

    Raises:
        SimulationError: nothing can be compared.
    """
    if calibration.site is None:
        raise SimulationError("the grid has no queues of the site", "--grid", "calibrate with --since or --from")
    with database.read_snapshot() as connection:
        cells, summary = check_week(
            connection, database.names, calibration.site, request,
            lambda done: remark(f"simulated {done} of {request.seeds}"),
        )  # fmt: skip
    if json:
        for cell in cells:
            print_json(cell.document())
        print_json(checked_document(summary))
    else:
        print_table(*cell_rows(cells))
        remark(words(summary))
    if out is not None:
        write_text(out, write_calibration(dataclasses.replace(calibration, checked=summary)))
        remark(f"written: {out}; comparisons on it print these errors")
    if not summary.holds:
        raise typer.Exit(FAILED)


def check_policy(name: str) -> None:
    """Refuse an unknown policy before anything is read.

    Raises:
        SimulationError: there is no such policy; the message names the others.
    """
    find_policy(name)


def cell_rows(cells: Sequence[Forecast]) -> tuple[Sequence[str], list[tuple[object, ...]]]:
    """Headings and rows of the table of cells."""
    return HEADS, [
        (cell.queue, FIGURES[cell.figure], cell.jobs, *(_short(cell, value) for value in _values(cell)),
         "" if not cell.counts else ("inside" if cell.inside else "outside"), _error(cell.figure, cell.error))
        for cell in cells
    ]  # fmt: skip


def _values(cell: Forecast) -> tuple[float, ...]:
    return cell.measured, cell.simulated, cell.low, cell.high


def _short(cell: Forecast, value: float) -> str:
    return f"{value:.3f}" if cell.figure in PARTS else f"{value:.0f}"


def _error(figure: str, error: float) -> str:
    """An error as text: in points for parts, for others in percent of the measured value."""
    return f"{100 * error:+.1f} points" if figure in PARTS else f"{100 * math.expm1(error):+.0f} %"


def words(summary: Checked) -> str:
    """The summary of the cells in words, by figure and by queue."""
    if not summary.cells:
        return "no cell has enough jobs to judge by: take a longer span"
    errors = [
        f"{FIGURES[name]} {_error(name, error).lstrip('+')}"
        + (f" (interval {_error(name, width)})" if (width := summary.half_width.get(name)) else "")
        for name, error in summary.error.items()
        if not math.isnan(error)
    ]
    figures = ", ".join(errors)
    worst = sorted(summary.by_queue.items(), key=lambda item: -item[1])[:5]
    queues = ", ".join(f"{name} {error:.2f}" for name, error in worst)
    return (
        f"{100 * summary.inside:.0f} % of {summary.cells} cells lie in their {100 * INSIDE:.0f} % interval (at least "
        f"{100 * LEAST_INSIDE:.0f} % should); {summary.span}, {summary.policy}, {summary.seeds} seeds\n"
        f"median error: {figures}\nqueues with the largest error (ln, or part): {queues}"
    )


def show_errors(grid: ScenarioOf, comparisons: Sequence[Comparison], json: bool) -> None:
    """Print the error of the grid against measured figures next to the gaps of policies, if it is known.

    Args:
        grid: the grid.
        comparisons: comparisons of the policies.
        json: print one object in place of lines.
    """
    if not isinstance(grid, CalibratedChoice):
        return
    known = grid.calibration.checked
    if known is None:
        if not json:
            remark("note: how far this grid is off is not known: broker calibrate --check --grid FILE --from A --to B")
        return
    if json:
        print_json(checked_document(known))
        return
    remark(f"this grid, compared with {known.span} ({known.policy}): {words(known).splitlines()[-2:][0]}")
    for own in comparisons[1:]:
        for figure, of in ERROR_OF.items():
            gap, error = own.differences[figure].mean, known.error.get(of, math.nan)
            whole = comparisons[0].means[figure].mean
            part = gap if of in PARTS else math.log1p(gap / whole) if whole > 0 and gap > -whole else math.nan
            if not math.isnan(part) and not math.isnan(error):
                word = "within" if abs(part) <= error else "beyond"
                title = FIGURES_OF_MERIT[figure].title
                remark(
                    f"{own.label}: its gap in {title} ({_error(of, part)}) is {word} that error ({_error(of, error)})"
                )


def checked_document(summary: Checked) -> dict[str, object]:
    """The summary of the cells for ``--json``."""
    parts = {name: _known(getattr(summary, name)) for name in ("error", "by_queue", "half_width")}
    inside = None if math.isnan(summary.inside) else summary.inside
    return {"kind": "checked", **vars(summary), "inside": inside, **parts, "holds": summary.holds}


def _known(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: (None if math.isnan(value) else value) for name, value in values.items()}
