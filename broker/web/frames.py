"""Frames of plots over time: Bokeh documents without data, created once, and the names of their data.

A frame is sent with its data and drawn by ``static/plots.js``. It contains no code, since the page's policy does not
allow code made from text. Colours are variables of the style sheet, which the browser fills in.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from broker.web.pictures.over_time import LANES, OUTCOMES

#: Bokeh does not accept variables as colours: these stand for them until the frame is text.
_COLOURS = {
    "--ink": "#010101",
    "--line": "#010102",
    "--run-fill": "#010103",
    "--wait-fill": "#010104",
    "--limit-fill": "#010105",
    "--idle-fill": "#010106",
    "--link": "#010107",
    "--fail-fill": "#010108",
}
_OF_OUTCOME = {
    "brokered": "--run-fill",
    "pending": "--wait-fill",
    "throttled": "--limit-fill",
    "skipped": "--idle-fill",
}
_OF_LANE = {
    "tuning": "--limit-fill",
    "queue": "--fail-fill",
    "source": "--link",
    "canary": "--link",
    "pin": "--wait-fill",
}
_TIME: Any = {"@at": "datetime"}
_UTC = "@at{%F %H:%M} UTC"
_HERE = ("here", "@here")
"""Filled in by the script, which knows the reader's clock."""


@cache
def frame(name: str) -> dict[str, Any]:
    """Return the frame of this name, ``outcomes`` or ``jobs``, as Bokeh's JSON."""
    from bokeh.embed import json_item

    makers: dict[str, Callable[[], Any]] = {"outcomes": _outcomes, "jobs": _jobs}
    text = json.dumps(json_item(makers[name]()))
    for variable, colour in _COLOURS.items():
        text = text.replace(colour, f"var({variable})")
    document: dict[str, Any] = json.loads(text)
    return document


def _outcomes() -> Any:
    """Build chunks by outcome, stacked; below them what changed, in lanes on the same axis of time."""
    from bokeh.layouts import column
    from bokeh.models import ColumnDataSource, HoverTool

    steps = ColumnDataSource({name: [] for name in ("at", "here", "wide", *OUTCOMES)}, name="steps")
    changes = ColumnDataSource({name: [] for name in ("at", "here", "lane", "text")}, name="marks")
    above = _with_clock(_figure(220, y_axis_label="chunks"))
    colours = [_COLOURS[_OF_OUTCOME[name]] for name in OUTCOMES]
    stacked = above.vbar_stack(OUTCOMES, x="at", width="wide", source=steps, fill_color=colours, line_color=None)
    tooltips = [("from", _UTC), _HERE, *((name, f"@{name}{{0,0}}") for name in OUTCOMES)]
    above.add_tools(HoverTool(renderers=stacked[:1], mode="vline", tooltips=tooltips, formatters=_TIME))
    below = _figure(120, x_range=above.x_range, y_range=list(reversed(LANES)))
    below.xaxis.visible = False
    dots = [_dots(below, changes, lane) for lane in LANES]
    below.add_tools(HoverTool(renderers=dots, tooltips=[("at", _UTC), _HERE, ("", "@text")], formatters=_TIME))
    return column(above, below, sizing_mode="stretch_width")


def _dots(plot: Any, source: Any, lane: str) -> Any:
    from bokeh.models import CDSView, GroupFilter

    view = CDSView(filter=GroupFilter(column_name="lane", group=lane))
    colour = _COLOURS[_OF_LANE[lane]]
    return plot.scatter("at", "lane", source=source, size=9, line_color=None, fill_color=colour, view=view)


def _jobs() -> Any:
    """Build the jobs that run and that wait at a queue."""
    from bokeh.models import ColumnDataSource, HoverTool

    steps = ColumnDataSource({name: [] for name in ("at", "here", "running", "queued")}, name="steps")
    plot = _with_clock(_figure(220, y_axis_label="jobs"))
    lines = [
        plot.step("at", name, source=steps, mode="after", line_width=2, line_color=_COLOURS[colour])
        for name, colour in (("running", "--run-fill"), ("queued", "--wait-fill"))
    ]
    tooltips = [("at", _UTC), _HERE, ("running", "@running{0,0}"), ("waiting", "@queued{0,0}")]
    plot.add_tools(HoverTool(renderers=lines[:1], mode="vline", tooltips=tooltips, formatters=_TIME))
    return plot


def _with_clock(plot: Any) -> Any:
    """Label the time axis of a figure with its clock: UTC, or the reader's where the script fills that in."""
    axis = plot.xaxis[0]
    axis.name, axis.formatter.name, axis.axis_label = "hours", "clock", "UTC"
    return plot


def _figure(height: int, **options: Any) -> Any:
    from bokeh.models import Range1d
    from bokeh.plotting import figure

    span: Any = Range1d
    plot: Any = figure(
        height=height,
        x_axis_type="datetime",
        sizing_mode="stretch_width",
        toolbar_location=None,
        tools="xbox_zoom",
        **{"x_range": span(start=0, end=1, name="time"), **options},
    )
    plot.background_fill_color = plot.border_fill_color = plot.outline_line_color = None
    plot.grid.grid_line_color = _COLOURS["--line"]
    plot.axis.major_label_text_color = plot.axis.axis_label_text_color = _COLOURS["--ink"]
    plot.axis.axis_label_text_font_size = plot.axis.major_label_text_font_size = "12px"
    plot.axis.axis_label_text_font_style = "normal"
    plot.axis.axis_line_color = plot.axis.major_tick_line_color = _COLOURS["--line"]
    plot.axis.minor_tick_line_color = None
    if not isinstance(options.get("y_range"), list):
        plot.y_range.start = 0
    plot.min_border_left = 70
    return plot
