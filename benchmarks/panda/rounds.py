"""Runs rounds of both sides in turn."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.panda.figures import Cycle, Round, check, row
from benchmarks.panda.ours import RunCycle
from benchmarks.panda.site import lines_of, logging_to

#: Our rounds for each of PanDA's, because ours are short.
OURS_A_ROUND = 5


def measure_rounds(theirs: Callable[[], Round], ours: RunCycle, rounds: int, log: Path) -> list[dict[str, Any]]:
    """Measure PanDA's and our rounds in turn; return a row with PanDA's log written to a file, and one with it dropped.

    Args:
        theirs: does all work with PanDA's broker.
        ours: does all work with our brokerage.
        rounds: timed rounds of PanDA's with each kind of log; a first, uncounted one queries the database.
        log: the file for PanDA's log.

    Raises:
        RuntimeError: one side did not do the work.
    """
    with logging_to(log):
        theirs()
    for compiled in (False, True):
        ours(compiled)
    with_log: list[Round] = []
    without_log: list[Round] = []
    plain_cycles: list[Cycle] = []
    compiled_cycles: list[Cycle] = []
    # exclude the objects of the benchmark from the garbage collections of both sides
    gc.collect()
    gc.freeze()
    try:
        for _ in range(rounds):
            with logging_to(log):
                with_log.append(theirs())
            plain_cycles += [ours(False) for _ in range(OURS_A_ROUND)]
            compiled_cycles += [ours(True) for _ in range(OURS_A_ROUND)]
            with logging_to(None):
                without_log.append(theirs())
    finally:
        gc.unfreeze()
    lines, rejections = lines_of(log)
    check([*with_log, *without_log], [*plain_cycles, *compiled_cycles], rejections)
    return [
        {
            "panda_log": "written",
            **row(with_log, plain_cycles, compiled_cycles),
            "log_lines": lines,
            "rejections": rejections,
        },
        {
            "panda_log": "dropped",
            **row(without_log, plain_cycles, compiled_cycles),
            "log_lines": 0,
            "rejections": rejections,
        },
    ]
