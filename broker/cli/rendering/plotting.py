"""``--plot`` for commands that show an answer, and the frame of their pictures. Needs the extra ``plot``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker.errors import WRONG_USAGE, BrokerError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg|png", help="Also draw it into this file.")]
FORMATS = (".svg", ".png")
MOST_QUEUES = 30
SMALL = 6
"""Size of letters of labels, in points."""
BEFORE, AFTER = "#7f7f7f", "#1f77b4"


class CannotPlot(BrokerError):
    """The picture cannot be drawn: the package is not installed, or the file cannot be written."""


class UnknownFormat(BrokerError):
    """The suffix of the file is none of the supported formats."""

    exit_status = WRONG_USAGE


def check_plot(file: Path | None) -> None:
    """Refuse a picture that cannot be drawn, before anything is read; ``file`` is None if none is requested.

    Raises:
        UnknownFormat: the suffix of the file is no known format.
        CannotPlot: matplotlib is not installed.
    """
    if file is None:
        return
    if file.suffix.lower() not in FORMATS:
        raise UnknownFormat(
            f"no picture is of the kind {file.suffix or 'without a suffix'}", str(file), "use .svg or .png"
        )
    new_figure(1, 1)


def plain_label(text: str) -> str:
    """Escape a text so that nothing in it is read as a formula."""
    return text.replace("$", r"\$")


def new_figure(rows: int, columns: int) -> tuple[Figure, Any]:
    """An empty figure with its axes in rows and columns.

    Raises:
        CannotPlot: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CannotPlot(
            f"pictures need the package {error.name}", "--plot", "install it: pip install 'gridbroker[plot]'"
        ) from error
    figure = Figure(figsize=(7.0 * columns, 4.5 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def save(figure: Figure, file: Path) -> None:
    """Write the picture in the format given by the suffix of the file.

    Raises:
        CannotPlot: the file cannot be written.
    """
    try:
        figure.savefig(file, format=file.suffix.lower().lstrip("."))
    except OSError as error:
        raise CannotPlot(
            f"the picture cannot be written: {error.strerror}", str(file), "choose another file"
        ) from error
