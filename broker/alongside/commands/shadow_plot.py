"""A plot of shadow mode: agreement by hour, and jobs by queue on both sides; one row for each brokerage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from broker.alongside.answers.shadow_models import AgreementLine, QueueComparison, Shadow
from broker.cli.rendering.plotting import AFTER, BEFORE, MOST_QUEUES, new_figure, plain_label, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_shadow(shadow: Shadow, file: Path) -> None:
    """Draw the answer.

    Raises:
        CannotPlot: matplotlib is not installed, or the file cannot be written.
    """
    names = [line.brokerage for line in shadow.brokerages]
    figure, axes = new_figure(max(1, len(names)), 2)
    for row, name in enumerate(names):
        _hours(axes[row][0], name, [line for line in shadow.hours if line.brokerage == name])
        _queues(axes[row][1], name, [line for line in shadow.queues if line.brokerage == name])
    save(figure, file)


def _hours(axes: Axes, name: str, lines: Sequence[AgreementLine]) -> None:
    known = [(line.hour, line.job_agreement) for line in lines]
    drawn = [(hour, 100 * share) for hour, share in known if hour is not None and share is not None]
    positions = list(range(len(drawn)))
    axes.plot(positions, [share for _, share in drawn], marker="o", color=AFTER)
    axes.set_xticks(positions, [f"{hour:%m-%d %H}" for hour, _ in drawn])
    axes.tick_params(axis="x", labelrotation=90, labelsize=6)
    axes.set_ylim(0, 105)
    axes.set_title(f"{name}: jobs at a candidate of ours, by hour (UTC)")
    axes.set_ylabel("agreement (%)")


def _queues(axes: Axes, name: str, lines: Sequence[QueueComparison]) -> None:
    largest = sorted(lines, key=lambda line: (-max(line.panda_jobs, line.our_jobs), line.queue))[:MOST_QUEUES]
    positions = list(range(len(largest)))
    axes.bar(
        [x - 0.2 for x in positions], [line.panda_jobs for line in largest], width=0.4, color=BEFORE, label="PanDA"
    )
    axes.bar([x + 0.2 for x in positions], [line.our_jobs for line in largest], width=0.4, color=AFTER, label="ours")
    axes.set_xticks(positions, [plain_label(line.queue) for line in largest])
    axes.tick_params(axis="x", labelrotation=90, labelsize=6)
    axes.set_title(f"{name}: jobs by queue (largest {len(largest)})")
    axes.set_ylabel("jobs")
    axes.legend()
