"""``--plot`` for commands that show an answer; nothing that draws is imported before it is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg|png", help="Also draw it into this file.")]


def check_plot(file: Path | None) -> None:
    """Refuse a picture that cannot be made before anything is read; None: none is wanted.

    Raises:
        UnknownFormat: the name of the file says no known format.
        CannotPlot: matplotlib is not installed.
    """
    if file is not None:
        from broker.whatif.model.plot import check_plot as check

        check(file)
