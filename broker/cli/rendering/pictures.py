"""Pictures of answers: funnel and weights of a decision, global shares, a task's history. They need the extra plot."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from broker.decisions.answers.phrases import several
from broker.history.answers.history import event_sentence
from broker.whatif.model.plot import AFTER, BEFORE, new_figure, plain_label, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from broker.decisions.answers.decision_model import ExplainedDecision, TaskDecision
    from broker.grid.answers.models import Shares
    from broker.history.answers.history import History, HistoryEvent

MOST_CANDIDATES, MOST_LETTERS, SMALL = 30, 60, 6
#: An instant is drawn this long, in parts of the whole time.
SHORTEST = 0.004
OUTCOME_COLOURS = {"brokered": "#2ca02c", "pending": "#ff7f0e", "throttled": "#d62728", "skipped": "#9467bd"}


def plot_decisions(found: TaskDecision, file: Path) -> None:
    """A row a decision: the queues that each rule left, and the weights of those that were chosen.

    Raises:
        CannotPlot: matplotlib is not installed, or the file cannot be written.
    """
    figure, axes = new_figure(max(1, len(found.decisions)), 2)
    for row, decision in enumerate(found.decisions):
        _funnel(axes[row][0], decision)
        _weights(axes[row][1], decision)
    save(figure, file)


def _funnel(axes: Axes, decision: ExplainedDecision) -> None:
    summary = decision.summary
    lines = [("start", summary.start.queues), *((one.code, one.remaining.queues) for one in summary.rejections)]
    _bars(axes, [name for name, _ in lines], [left for _, left in lines])
    kinds = several(decision.candidate_kind)
    axes.set_title(plain_label(f"task {decision.jeditaskid}, {decision.brokerage}: {kinds} left"))


def _weights(axes: Axes, decision: ExplainedDecision) -> None:
    shown = sorted(decision.candidates, key=lambda one: (-one.weight, one.name))[:MOST_CANDIDATES]
    colours = [AFTER if one.assigned else BEFORE for one in shown]
    _bars(axes, [one.name for one in shown], [one.weight for one in shown], colours)
    axes.set_title("weights (blue: got work)" if shown else "no candidate has a weight")


def _bars(axes: Axes, labels: Sequence[str], values: Sequence[float], colours: Sequence[str] = ()) -> None:
    """Horizontal bars from the top down."""
    places = range(len(labels))
    axes.barh(list(places), list(values), color=list(colours) or AFTER)
    axes.set_yticks(list(places), [plain_label(label) for label in labels])
    axes.tick_params(axis="y", labelsize=SMALL)
    axes.invert_yaxis()


def plot_shares(found: Shares, file: Path) -> None:
    """For each global share its target and what runs, in per cent of all.

    Raises:
        CannotPlot: matplotlib is not installed, or the file cannot be written.
    """
    figure, ((axes,),) = new_figure(max(1, len(found.shares) // 15), 1)
    places = range(len(found.shares))
    target = [one.target_percent or 0.0 for one in found.shares]
    running = [one.running_percent or 0.0 for one in found.shares]
    axes.barh([place - 0.2 for place in places], target, height=0.4, color=BEFORE, label="target")
    axes.barh([place + 0.2 for place in places], running, height=0.4, color=AFTER, label="running")
    axes.set_yticks(list(places), [plain_label("  " * one.depth + one.gshare) for one in found.shares])
    axes.tick_params(axis="y", labelsize=SMALL)
    axes.invert_yaxis()
    axes.set_xlabel("share of all (%)")
    axes.legend()
    save(figure, file)


def plot_history(found: History, file: Path) -> None:
    """The events over time, a line each kind; decisions by outcome.

    Raises:
        CannotPlot: matplotlib is not installed, or the file cannot be written.
    """
    figure, ((axes,),) = new_figure(1, 1)
    lanes = list(dict.fromkeys(map(_lane, found.events)))
    start, end = span_of(found.events)
    hours = timedelta(hours=1)
    whole = max(hours, end - start)
    least = whole * SHORTEST
    for event in found.events:
        width = max(least, (event.until or event.at) - event.at)
        colour = OUTCOME_COLOURS.get(event.about.get("outcome", ""), BEFORE)
        axes.barh(lanes.index(_lane(event)), width / hours, left=(event.at - start) / hours, height=0.6, color=colour)
    last = found.events[-1]
    axes.set_title(plain_label(f"task {found.jeditaskid}; last: {event_sentence(last)}"[:MOST_LETTERS]))
    axes.set_yticks(range(len(lanes)), [plain_label(name) for name in lanes])
    axes.invert_yaxis()
    axes.set_xlim(0, whole / hours * (1 + SHORTEST))
    axes.set_xlabel(f"hours since {start:%Y-%m-%d %H:%M} UTC")
    save(figure, file)


def _lane(event: HistoryEvent) -> str:
    if event.event != "decision":
        return event.event.replace("_", " ")
    about = event.about
    return f"{about['outcome']} {about.get('main_code') or about['reason'] or ''}".strip()


def span_of(events: Sequence[HistoryEvent]) -> tuple[datetime, datetime]:
    """The first and the last instant of events, of which there is one at least."""
    return min(one.at for one in events), max(one.until or one.at for one in events)
