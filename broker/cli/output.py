"""What commands print; see `broker.cli.rendering`."""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console

from broker.cli.rendering.json_lines import print_json
from broker.cli.rendering.tables import print_table
from broker.cli.rendering.visible_text import escaped, remark

__all__ = ["console", "escaped", "print_json", "print_table", "remark"]

_WIDTH_OF_PIPES = 200


def console(stream: TextIO | None = None) -> Console:
    """A console on ``stream`` (stdout) that takes text literally; wide when it is no terminal."""
    target = stream or sys.stdout
    return Console(
        file=target, markup=False, highlight=False, emoji=False, width=None if target.isatty() else _WIDTH_OF_PIPES
    )
