"""Pictures of answers: funnel and weights of a decision, global shares, a task's history. Needs the extra ``plot``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from broker.domain.words import several
from broker.history.answers.history import event_sentence
from broker.whatif.model.plot import AFTER, BEFORE, new_figure, plain_label, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from broker.decisions.answers.decision_model import ExplainedDecision, TaskDecision
    from broker.grid.answers.models import Shares
    from broker.history.answers.history import History, HistoryEvent

MOST_CANDIDATES, MOST_LETTERS, SMALL = 30, 60, 6
#: Minimum drawn length of an instant, as a fraction of the whole time.
SHORTEST = 0.004
OUTCOME_COLOURS = {"brokered": "#2ca02c", "pending": "#ff7f0e", "throttled": "#d62728", "skipped": "#9467bd"}


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


def plot_shares(shares: Shares, file: Path) -> None:
    """Draw for each global share its target and its running part, in per cent of all.

    Raises:
        CannotPlot: matplotlib is not installed, or the file cannot be written.
    """
    figure, ((axes,),) = new_figure(max(1, len(shares.shares) // 15), 1)
    places = range(len(shares.shares))
    target = [share.target_percent or 0.0 for share in shares.shares]
    running = [share.running_percent or 0.0 for share in shares.shares]
    axes.barh([place - 0.2 for place in places], target, height=0.4, color=BEFORE, label="target")
    axes.barh([place + 0.2 for place in places], running, height=0.4, color=AFTER, label="running")
    axes.set_yticks(list(places), [plain_label("  " * share.depth + share.gshare) for share in shares.shares])
    axes.tick_params(axis="y", labelsize=SMALL)
    axes.invert_yaxis()
    axes.set_xlabel("share of all (%)")
    axes.legend()
    save(figure, file)


def plot_history(history: History, file: Path) -> None:
    """Draw the events over time, one line for each kind; decisions by outcome.

    Raises:
        CannotPlot: matplotlib is not installed, or the file cannot be written.
    """
    figure, ((axes,),) = new_figure(1, 1)
    lanes = list(dict.fromkeys(map(_lane, history.events)))
    start, end = span_of(history.events)
    hours = timedelta(hours=1)
    length = max(hours, end - start)
    least = length * SHORTEST
    for event in history.events:
        width = max(least, (event.until or event.at) - event.at)
        colour = OUTCOME_COLOURS.get(event.about.get("outcome", ""), BEFORE)
        axes.barh(lanes.index(_lane(event)), width / hours, left=(event.at - start) / hours, height=0.6, color=colour)
    last = history.events[-1]
    axes.set_title(plain_label(f"task {history.jeditaskid}; last: {event_sentence(last)}"[:MOST_LETTERS]))
    axes.set_yticks(range(len(lanes)), [plain_label(name) for name in lanes])
    axes.invert_yaxis()
    axes.set_xlim(0, length / hours * (1 + SHORTEST))
    axes.set_xlabel(f"hours since {start:%Y-%m-%d %H:%M} UTC")
    save(figure, file)


def _lane(event: HistoryEvent) -> str:
    if event.event != "decision":
        return event.event.replace("_", " ")
    about = event.about
    return f"{about['outcome']} {about.get('main_code') or about['reason'] or ''}".strip()


def span_of(events: Sequence[HistoryEvent]) -> tuple[datetime, datetime]:
    """Return the first and the last instant of the events, of which there is at least one."""
    return min(event.at for event in events), max(event.until or event.at for event in events)
