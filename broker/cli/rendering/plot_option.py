"""``--plot`` for commands that show an answer; no drawing code is imported before it is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg|png", help="Also draw it into this file.")]


def check_plot(file: Path | None) -> None:
    """Refuse a picture that cannot be drawn before anything is read; ``file`` is None if none is requested.

    Raises:
        UnknownFormat: the file name has no known format.
        CannotPlot: matplotlib is not installed.
    """
    if file is not None:
        from broker.whatif.model.plot import check_plot as check

        check(file)
