"""The picture of a task's history: its events over time, one line for each kind. Needs the extra ``plot``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from broker.cli.rendering.plotting import BEFORE, new_figure, plain_label, save
from broker.history.answers.history import History, HistoryEvent, event_sentence

MOST_LETTERS = 60
#: Minimum drawn length of an instant, as a fraction of the whole time.
SHORTEST = 0.004
OUTCOME_COLOURS = {"brokered": "#2ca02c", "pending": "#ff7f0e", "throttled": "#d62728", "skipped": "#9467bd"}


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
