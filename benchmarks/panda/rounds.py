"""Rounds of both sides in turn."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.panda.figures import Cycle, Round, check, row
from benchmarks.panda.ours import RunCycle
from benchmarks.panda.site import lines_of, logging_to

#: Rounds of ours for each of PanDA's: they are short.
OURS_A_ROUND = 5


def measured(theirs: Callable[[], Round], ours: RunCycle, rounds: int, log: Path) -> list[dict[str, Any]]:
    """PanDA's and ours in turn, as rows of the report: PanDA's log written to a file, and dropped.

    Args:
        theirs: all work by PanDA's broker.
        ours: all work by ours.
        rounds: timed rounds of PanDA's with each kind of log; a first one asks the database and is not counted.
        log: file for PanDA's log.

    Raises:
        RuntimeError: one side did not do the work.
    """
    with logging_to(log):
        theirs()
    for compiled in (False, True):
        ours(compiled)
    written: list[Round] = []
    dropped: list[Round] = []
    plain: list[Cycle] = []
    by_loop: list[Cycle] = []
    # what the benchmark itself holds is nothing for either side's collections to walk over
    gc.collect()
    gc.freeze()
    try:
        for _ in range(rounds):
            with logging_to(log):
                written.append(theirs())
            plain += [ours(False) for _ in range(OURS_A_ROUND)]
            by_loop += [ours(True) for _ in range(OURS_A_ROUND)]
            with logging_to(None):
                dropped.append(theirs())
    finally:
        gc.unfreeze()
    lines, rejections = lines_of(log)
    check([*written, *dropped], [*plain, *by_loop], rejections)
    return [
        {"panda_log": "written", **row(written, plain, by_loop), "log_lines": lines, "rejections": rejections},
        {"panda_log": "dropped", **row(dropped, plain, by_loop), "log_lines": 0, "rejections": rejections},
    ]
