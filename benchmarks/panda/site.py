"""PanDA's classes over a loaded grid, and their log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

#: The replacements for Oracle, Rucio and PanDA's server come from the tests of the plug-in.
STAND_INS = Path(__file__).parents[2] / "plugins" / "jedi" / "tests"
sys.path.insert(0, str(STAND_INS))

from benchmarks.panda.remembered import Remembered  # noqa: E402
from panda import installation  # noqa: E402

#: The line format of PanDA's own logger.
LINE = "%(asctime)s %(name)-12s: %(levelname)-8s %(message)s"
#: Marks lines of a broker's log that say why a queue or a nucleus was left out.
REJECTED = " criteria=-"


@dataclass(frozen=True)
class PandaSite:
    """The interfaces that JEDI passes to its brokers.

    Attributes:
        buffer: the task buffer.
        ddm: the client of Rucio.
    """

    buffer: Remembered
    ddm: Remembered


@contextmanager
def panda_over(url: str, now: datetime, home: Path) -> Iterator[PandaSite]:
    """Yield PanDA's interfaces over the database at ``url``, with the clock at ``now``.

    Args:
        url: the address of a database with a grid and its work.
        now: the time of the grid.
        home: an empty folder for PanDA's configuration.
    """
    installation.prepare(home)
    installation.CLOCK.now = now.replace(tzinfo=None)
    from pandajedi.jediddm.AtlasDDMClient import AtlasDDMClient

    from panda import loading, task_buffer
    from panda.remote import Remote

    loading.complete_loaded(url)
    connection = task_buffer.connect(url)
    try:
        task_buffer.fill_statistics(connection)
        task_buffer.load_rucio(connection, home)
        buffer = Remote(task_buffer.task_buffer(connection))
        yield PandaSite(Remembered(buffer), Remembered(Remote(AtlasDDMClient(None))))
    finally:
        connection.close()


@contextmanager
def logging_to(file: Path | None) -> Iterator[None]:
    """Let PanDA's loggers write all their lines to ``file`` as in operation, or to nothing.

    Args:
        file: overwritten; without it every line is still logged by the broker, but dropped before it is formatted.
    """
    logger = logging.getLogger("panda")
    handler = logging.NullHandler() if file is None else logging.FileHandler(file, mode="w", encoding="utf-8")
    handler.setFormatter(logging.Formatter(LINE))
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


def lines_of(file: Path) -> tuple[int, int]:
    """Count the lines of a log, and those that reject a queue or a nucleus."""
    with file.open(encoding="utf-8") as log:
        kinds = [REJECTED in line for line in log]
    return len(kinds), sum(kinds)
