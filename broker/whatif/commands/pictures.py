"""Pictures of a difference: candidates of a decision, and jobs by queue, before and after. Needs the extra ``plot``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli.rendering.plotting import AFTER, BEFORE, MOST_QUEUES, new_figure, plain_label, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from broker.whatif.model.comparison import Difference, Totals


def plot_difference(difference: Difference, file: Path) -> None:
    """Draw the two distributions of each brokerage, one brokerage a row.

    Raises:
        CannotPlot: matplotlib is not installed, or the file cannot be written.
    """
    brokerages = sorted(difference.totals)
    figure, axes = new_figure(max(1, len(brokerages)), 2)
    for row, brokerage in enumerate(brokerages):
        _candidates(axes[row][0], brokerage, difference.totals[brokerage])
        _shares(axes[row][1], brokerage, difference.totals[brokerage])
    save(figure, file)


def _candidates(axes: Axes, brokerage: str, totals: Totals) -> None:
    sizes = range(max([0, *totals.candidates_before, *totals.candidates_after]) + 1)
    before = [totals.candidates_before[size] for size in sizes]
    after = [totals.candidates_after[size] for size in sizes]
    _bars(axes, [str(size) for size in sizes], before, after)
    axes.set_title(f"{brokerage}: candidates of a decision")
    axes.set_xlabel("candidates")
    axes.set_ylabel("decisions")


def _shares(axes: Axes, brokerage: str, totals: Totals) -> None:
    before, after = (totals.jobs_before.total() or 1) / 100, (totals.jobs_after.total() or 1) / 100
    largest = sorted(
        {*totals.jobs_before, *totals.jobs_after},
        key=lambda name: (-max(totals.jobs_before[name] / before, totals.jobs_after[name] / after), name),
    )[:MOST_QUEUES]
    _bars(
        axes,
        [plain_label(name) for name in largest],
        [totals.jobs_before[name] / before for name in largest],
        [totals.jobs_after[name] / after for name in largest],
    )
    axes.set_title(f"{brokerage}: share of jobs (largest {len(largest)})")
    axes.set_ylabel("share of jobs (%)")
    axes.tick_params(axis="x", labelrotation=90, labelsize=6)


def _bars(axes: Axes, labels: Sequence[str], before: Sequence[float], after: Sequence[float]) -> None:
    places = range(len(labels))
    axes.bar([place - 0.2 for place in places], before, width=0.4, color=BEFORE, label="before")
    axes.bar([place + 0.2 for place in places], after, width=0.4, color=AFTER, label="after")
    axes.set_xticks(list(places), list(labels))
    axes.legend()


def plot_sweep(
    labels: Sequence[str], series: dict[str, Sequence[float]], title: str, file: Path, in_force: float | None = None
) -> None:
    """Draw each figure as a line over the points of a grid, one chart below the other.

    ``in_force`` is the position of the value in force among the points, where a vertical line is drawn.

    Raises:
        CannotPlot: matplotlib is not installed, or the file cannot be written.
    """
    figure, axes = new_figure(len(series), 1)
    places = range(len(labels))
    for row, (name, values) in enumerate(series.items()):
        axes[row][0].plot(list(places), list(values), marker="o", color=AFTER)
        axes[row][0].set_ylabel(name)
        axes[row][0].set_ylim(bottom=0)
        axes[row][0].yaxis.get_major_formatter().set_useOffset(False)
        if in_force is not None:
            axes[row][0].axvline(in_force, color=BEFORE, linestyle="--", label="in force")
            axes[row][0].legend()
        axes[row][0].set_xticks(list(places), [plain_label(label) for label in labels])
        axes[row][0].tick_params(axis="x", labelrotation=90, labelsize=6)
    axes[0][0].set_title(plain_label(title))
    save(figure, file)
