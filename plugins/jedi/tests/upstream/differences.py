"""One decision that PanDA's broker and ours take differently, and what made the difference."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from panda.decisions import Decided

_CRITERIA = re.compile(r"skip (?:site|nucleus)[= ](\S+).*criteria=(-\w+)")
#: As the generic broker says it, which knows no criteria.
_DUE_TO = re.compile(r"skip (?:site=)?(\S+) due to ([A-Za-z ]+)")
_PLACE = re.compile(r'File ".*/(\w+)\.py", line (\d+)')
#: Weights that differ by less are equal: sums were made in another order.
CLOSE = 1e-9


@dataclass(frozen=True)
class Difference:
    """A decision that is not equal.

    Attributes:
        kind: the brokerage.
        seed: of the grid.
        task: its id.
        dataset: master dataset of the chunk; None for a task.
        ramcount: of the chunk, in MB.
        theirs: weight by queue or nucleus, as PanDA decides.
        ours: the same, as the profile decides.
        causes: rules of either side that made the difference, such as ``ours: memory_max``; sorted.
    """

    kind: str
    seed: int
    task: int
    dataset: int | None
    ramcount: int
    theirs: Mapping[str, float]
    ours: Mapping[str, float]
    causes: tuple[str, ...]


def equal(theirs: Mapping[str, float], ours: Mapping[str, float]) -> bool:
    """Whether both have the same candidates with the same weights."""
    return theirs.keys() == ours.keys() and not _heavier(theirs, ours)


def _heavier(theirs: Mapping[str, float], ours: Mapping[str, float]) -> list[str]:
    both = theirs.keys() & ours.keys()
    return [name for name in sorted(both) if not math.isclose(theirs[name], ours[name], rel_tol=CLOSE, abs_tol=1e-12)]


def causes(theirs: Decided, weights: Mapping[str, float], own: Mapping[str, Any] | None) -> tuple[str, ...]:
    """What made a difference: rules of ours that refused PanDA's candidates, and PanDA's that refused ours.

    Args:
        theirs: PanDA's decision.
        weights: of our candidates; empty if there are none.
        own: our decision as the service tells it, None if it did not decide.
    """
    if own is None:
        return ("ours: not decided",)
    if theirs.error:
        return (f"PanDA: {_error(theirs.error)}",)
    refused = _refused(theirs.log)
    reasons = set()
    for name in theirs.candidates.keys() - weights.keys():
        reasons.add(f"ours: {own['rejected'].get(name) or own['reason'] or 'no candidate'}")
    for name in weights.keys() - theirs.candidates.keys():
        reasons.add(f"PanDA: {refused.get(name) or refused.get(name.split('/')[0]) or _last(theirs.log)}")
    if _heavier(theirs.candidates, weights):
        reasons.add("weight")
    return tuple(sorted(reasons))


def _refused(log: list[str]) -> dict[str, str]:
    """For queues and nuclei in PanDA's log the last criterion that refused them."""
    lines = [line for text in log for line in text.splitlines()]
    matches = (_CRITERIA.search(line) or _DUE_TO.search(line) for line in lines)
    return {match.group(1): match.group(2).strip() for match in matches if match is not None}


def _last(log: list[str]) -> str:
    """Where nothing is said of a queue, what PanDA said last, without numbers and names."""
    lines = [line for text in log for line in text.splitlines() if "<jediTaskID" in line]
    told = lines[-1].split("> ", 1)[-1] if lines else "nothing said"
    return re.sub(r"\S*[\d_]\S*", "..", told)[:80]


def _error(traceback: str) -> str:
    """The last line of a traceback, with its place."""
    module, line = _PLACE.findall(traceback)[-1]
    return f"{traceback.strip().splitlines()[-1][:60]} ({module} {line})"
