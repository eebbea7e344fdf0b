"""The jobs of tasks by state: their progress, in words and as bars. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from urllib.parse import urlencode

from markupsafe import Markup

from broker.web.pictures.bars import Bar, bars

#: States of jobs in the order of their life cycle, each with the colour of its meaning.
STATES = {
    "defined": "bar-wait", "assigned": "bar-wait", "waiting": "bar-wait", "activated": "bar-wait", "sent": "bar-wait",
    "starting": "bar-wait", "running": "bar-good", "holding": "bar-good", "merging": "bar-good",
    "transferring": "bar-good", "finished": "bar-left", "failed": "bar-lost", "cancelled": "bar-idle",
    "closed": "bar-idle",
}  # fmt: skip


def progress_sentence(states: Mapping[str, int]) -> str:
    """Describe the progress of tasks by the number of jobs in each state. Pure."""
    total = sum(states.values())
    if not total:
        return "no jobs yet"
    finished, failed = states.get("finished", 0), states.get("failed", 0)
    sentence = f"{finished:,} of {total:,} finished ({100 * finished / total:.0f} %)"
    return f"{sentence}, {failed:,} failed" if failed else sentence


def end_sentence(finished_an_hour: float | None, expected_end: datetime | None) -> str:
    """Describe when the present jobs will have ended at the rate of the last hours; empty if unknown. Pure."""
    if finished_an_hour is None or expected_end is None:
        return ""
    return f"{finished_an_hour:,.0f} finish an hour: these jobs have ended by about {expected_end:%Y-%m-%d %H:%M} UTC."


def states_picture(states: Mapping[str, int], task: int | None = None) -> Markup:
    """Draw jobs by state, waiting ones first; for a single task each state links to its jobs."""
    order = [*STATES, *sorted(set(states) - set(STATES))]
    lines = [
        Bar(
            name,
            float(states[name]),
            f"{states[name]:,}",
            None if task is None else f"/jobs?{urlencode({'task': task, 'state': name})}",
            class_=STATES.get(name, "bar-idle"),
        )
        for name in order
        if states.get(name)
    ]
    return bars("Jobs by state", lines)
