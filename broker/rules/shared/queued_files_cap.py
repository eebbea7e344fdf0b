"""A cap on files that wait for transfer to a nucleus: more files close it, and so does a cap of 0.

Source: ATLAS Production Job Brokerage, files queued on links and to be aggregated to the nucleus; ATLAS Production Task
Brokerage, transfer backlogs. A cap of 0 is the operator's: it needs no figures.
"""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Bools, Floats, Observation, number


def below_cap(files: Floats, cap: float, equality_closes: bool = False) -> Bools:
    """Where the files that wait do not close anything, in the shape of ``files``; an unknown number is none."""
    if equality_closes:
        return np.asarray(~(files >= cap))
    return np.asarray(~(files > cap) & (cap > 0))


def sources_of_cap(sources: tuple[str, ...], cap: float) -> tuple[str, ...]:
    """The sources without which the cap says nothing: none at 0."""
    return sources if cap > 0 else ()


def against_cap(files: Floats, cap: float, key: str, equality_closes: bool = False) -> Observation:
    """Files that wait, none where nothing is known; where equality closes, an unknown number has no limit."""
    queued = number(files)
    limit = None if equality_closes and queued is None else cap
    closes = equality_closes or not cap > 0
    return Observation(queued or 0.0, "<" if closes else "<=", limit, "files", key, {"known": queued is not None})
