"""What stays until the end of a process is not searched for unreachable objects, for which everything waits."""

from __future__ import annotations

import gc

#: Python looks for unreachable objects each 700 or 2,000 new ones. While a cycle reads, decides and writes thousands of
#: chunks, most of these are in use, and are only visited: a tenth of the processor time of such a cycle.
NEW_OBJECTS_BEFORE_A_SEARCH = 20_000


def keep_what_is_there() -> None:
    """Leave all objects that are reachable now out of every later search; search seldom, where it is done at all.

    Unreachable objects are freed before, as the collector would not find them later.
    """
    gc.collect()
    gc.freeze()
    young, *older = gc.get_threshold()
    if young:
        gc.set_threshold(max(young, NEW_OBJECTS_BEFORE_A_SEARCH), *older)
