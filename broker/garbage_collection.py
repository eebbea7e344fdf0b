"""Keeps long-lived objects out of the search for unreachable ones, for which everything waits."""

from __future__ import annotations

import gc

#: Python searches for unreachable objects after every 700 or 2,000 new ones. While a cycle reads, decides and writes
#: thousands of chunks, most of these are in use, and visiting them takes a tenth of the processor time of the cycle.
NEW_OBJECTS_BEFORE_A_SEARCH = 20_000


def keep_what_is_there() -> None:
    """Leave all objects that are reachable now out of every later search, and search less often if at all.

    Unreachable objects are freed first, as the collector would not find them later.
    """
    gc.collect()
    gc.freeze()
    young, *older = gc.get_threshold()
    if young:
        gc.set_threshold(max(young, NEW_OBJECTS_BEFORE_A_SEARCH), *older)
