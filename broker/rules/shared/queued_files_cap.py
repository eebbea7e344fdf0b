"""A cap on files that wait for transfer to a nucleus: more files close it, and so does a cap of 0.

Source: ATLAS Production Job Brokerage, files queued on links and to be aggregated to the nucleus; ATLAS Production Task
Brokerage, transfer backlogs. An operator sets a cap of 0, which needs no figures.
"""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Bools, Floats, Observation, number


def below_cap(files: Floats, cap: float, equality_closes: bool = False, zero_closes_all: bool = True) -> Bools:
    """True where the waiting files are within the cap, in the shape of ``files``; an unknown number counts as none."""
    if equality_closes:
        return np.asarray(~(files >= cap))
    return np.asarray(~(files > cap) & (cap > 0 or not zero_closes_all))


def sources_of_cap(sources: tuple[str, ...], cap: float, zero_closes_all: bool = True) -> tuple[str, ...]:
    """The sources that the cap needs: none at 0, if that closes whatever waits."""
    return () if zero_closes_all and not cap > 0 else sources


def against_cap(
    files: Floats, cap: float, key: str, equality_closes: bool = False, zero_closes_all: bool = True
) -> Observation:
    """The waiting files, 0 if unknown; where equality closes, an unknown number has no limit."""
    queued = number(files)
    limit = None if equality_closes and queued is None else cap
    closes = equality_closes or (zero_closes_all and not cap > 0)
    return Observation(queued or 0.0, "<" if closes else "<=", limit, "files", key, {"known": queued is not None})
