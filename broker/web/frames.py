"""Frames of plots over time: documents of Bokeh without data, made once, and the names of the data that go into them.

A frame is sent with the data beside it, and drawn by ``static/plots.js``. It holds no code: the policy of the page lets
none be made from text. Colours are variables of the style sheet, which the browser puts in.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from broker.web.pictures.over_time import LANES, OUTCOMES

#: Bokeh takes no variable for a colour: these stand for them until the frame is text.
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
"""Filled by the script, which knows the clock of the reader."""


@cache
def frame(name: str) -> dict[str, Any]:
    """Return the frame of this name, ``outcomes`` or ``jobs``, as Bokeh's JSON."""
    from bokeh.embed import json_item

    made: dict[str, Callable[[], Any]] = {"outcomes": _outcomes, "jobs": _jobs}
    text = json.dumps(json_item(made[name]()))
    for variable, colour in _COLOURS.items():
        text = text.replace(colour, f"var({variable})")
    found: dict[str, Any] = json.loads(text)
    return found


def _outcomes() -> Any:
    """Chunks by outcome, stacked; below them what changed, in lanes on the same axis of time."""
    from bokeh.layouts import column
    from bokeh.models import ColumnDataSource, HoverTool

    steps = ColumnDataSource({name: [] for name in ("at", "here", "wide", *OUTCOMES)}, name="steps")
    marks = ColumnDataSource({name: [] for name in ("at", "here", "lane", "text")}, name="marks")
    above = _with_clock(_figure(220, y_axis_label="chunks"))
    colours = [_COLOURS[_OF_OUTCOME[name]] for name in OUTCOMES]
    stacked = above.vbar_stack(OUTCOMES, x="at", width="wide", source=steps, fill_color=colours, line_color=None)
    said = [("from", _UTC), _HERE, *((name, f"@{name}{{0,0}}") for name in OUTCOMES)]
    above.add_tools(HoverTool(renderers=stacked[:1], mode="vline", tooltips=said, formatters=_TIME))
    below = _figure(120, x_range=above.x_range, y_range=list(reversed(LANES)))
    below.xaxis.visible = False
    dots = [_dots(below, marks, lane) for lane in LANES]
    below.add_tools(HoverTool(renderers=dots, tooltips=[("at", _UTC), _HERE, ("", "@text")], formatters=_TIME))
    return column(above, below, sizing_mode="stretch_width")


def _dots(made: Any, marks: Any, lane: str) -> Any:
    from bokeh.models import CDSView, GroupFilter

    view = CDSView(filter=GroupFilter(column_name="lane", group=lane))
    colour = _COLOURS[_OF_LANE[lane]]
    return made.scatter("at", "lane", source=marks, size=9, line_color=None, fill_color=colour, view=view)


def _jobs() -> Any:
    """Jobs that run and that wait at a queue."""
    from bokeh.models import ColumnDataSource, HoverTool

    steps = ColumnDataSource({name: [] for name in ("at", "here", "running", "queued")}, name="steps")
    made = _with_clock(_figure(220, y_axis_label="jobs"))
    lines = [
        made.step("at", name, source=steps, mode="after", line_width=2, line_color=_COLOURS[colour])
        for name, colour in (("running", "--run-fill"), ("queued", "--wait-fill"))
    ]
    said = [("at", _UTC), _HERE, ("running", "@running{0,0}"), ("waiting", "@queued{0,0}")]
    made.add_tools(HoverTool(renderers=lines[:1], mode="vline", tooltips=said, formatters=_TIME))
    return made


def _with_clock(made: Any) -> Any:
    """A figure whose axis of time says its clock: UTC, or that of the reader where the script puts it there."""
    axis = made.xaxis[0]
    axis.name, axis.formatter.name, axis.axis_label = "hours", "clock", "UTC"
    return made


def _figure(height: int, **options: Any) -> Any:
    from bokeh.models import Range1d
    from bokeh.plotting import figure

    span: Any = Range1d
    made: Any = figure(
        height=height,
        x_axis_type="datetime",
        sizing_mode="stretch_width",
        toolbar_location=None,
        tools="xbox_zoom",
        **{"x_range": span(start=0, end=1, name="time"), **options},
    )
    made.background_fill_color = made.border_fill_color = made.outline_line_color = None
    made.grid.grid_line_color = _COLOURS["--line"]
    made.axis.major_label_text_color = made.axis.axis_label_text_color = _COLOURS["--ink"]
    made.axis.axis_label_text_font_size = made.axis.major_label_text_font_size = "12px"
    made.axis.axis_label_text_font_style = "normal"
    made.axis.axis_line_color = made.axis.major_tick_line_color = _COLOURS["--line"]
    made.axis.minor_tick_line_color = None
    if not isinstance(options.get("y_range"), list):
        made.y_range.start = 0
    made.min_border_left = 70
    return made
