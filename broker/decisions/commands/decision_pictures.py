"""Pictures of decisions: the queues left by each rule, and the weights of candidates. Needs the extra ``plot``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli.rendering.plotting import AFTER, BEFORE, SMALL, new_figure, plain_label, save
from broker.decisions.answers.decision_model import ExplainedDecision, TaskDecision
from broker.domain.words import several

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CANDIDATES = 30


def plot_decisions(task_decision: TaskDecision, file: Path) -> None:
    """Draw one row a decision: the queues left by each rule, and the weights of the chosen ones.

    Raises:
        CannotPlot: matplotlib is not installed, or the file cannot be written.
    """
    figure, axes = new_figure(max(1, len(task_decision.decisions)), 2)
    for row, decision in enumerate(task_decision.decisions):
        _funnel(axes[row][0], decision)
        _weights(axes[row][1], decision)
    save(figure, file)


def _funnel(axes: Axes, decision: ExplainedDecision) -> None:
    summary = decision.summary
    lines = [
        ("start", summary.start.queues),
        *((rejection.code, rejection.remaining.queues) for rejection in summary.rejections),
    ]
    _bars(axes, [name for name, _ in lines], [remaining for _, remaining in lines])
    kinds = several(decision.candidate_kind)
    axes.set_title(plain_label(f"task {decision.jeditaskid}, {decision.brokerage}: {kinds} left"))


def _weights(axes: Axes, decision: ExplainedDecision) -> None:
    heaviest = sorted(decision.candidates, key=lambda candidate: (-candidate.weight, candidate.name))[:MOST_CANDIDATES]
    colours = [AFTER if candidate.assigned else BEFORE for candidate in heaviest]
    _bars(axes, [candidate.name for candidate in heaviest], [candidate.weight for candidate in heaviest], colours)
    axes.set_title("weights (blue: got work)" if heaviest else "no candidate has a weight")


def _bars(axes: Axes, labels: Sequence[str], values: Sequence[float], colours: Sequence[str] = ()) -> None:
    """Draw horizontal bars from the top down."""
    places = range(len(labels))
    axes.barh(list(places), list(values), color=list(colours) or AFTER)
    axes.set_yticks(list(places), [plain_label(label) for label in labels])
    axes.tick_params(axis="y", labelsize=SMALL)
    axes.invert_yaxis()
