"""Which queues are candidates for a chunk of analysis: those of analysis, without what the user excludes.

Source: ATLAS Analysis Job Brokerage, preliminary candidates; PanDA analysis brokerage, candidate generation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from broker.domain.analysis import AnalysisWork
from broker.domain.arrays import Bools
from broker.domain.work import WorkTable
from broker.snapshot.snapshot import Snapshot

AUTO = "AUTO"


@dataclass(frozen=True)
class AnalysisCandidates:
    """Candidates (T, Q), and how the queues of a chunk were named.

    ``named`` (T, Q): by ``site`` or the list of included ones, so that they need not be online; ``single`` (T,): by
    ``site``.
    """

    initial: Bools
    single: Bools
    named: Bools


@lru_cache(maxsize=4096)
def matcher(items: str) -> re.Pattern[str] | None:
    """What matches any item of a comma-separated list, None for an empty list.

    ``*`` stands for any characters, everything else for itself; the whole name has to match, case-sensitive. ``AUTO``
    is no name.
    """
    names = [item.strip() for item in items.split(",")]
    patterns = [".*".join(map(re.escape, name.split("*"))) for name in names if name and name != AUTO]
    return re.compile("|".join(patterns), re.DOTALL) if patterns else None


def has_auto(items: str) -> bool:
    """Whether queues that the list does not name may be used when none that it names is there."""
    return any(item.strip() == AUTO for item in items.split(","))


def matched(items: str, names: list[str]) -> Bools:
    """(U,): the unified queues that the list names."""
    pattern = matcher(items)
    found = [pattern is not None and pattern.fullmatch(name) is not None for name in names]
    return np.array(found, dtype=np.bool_)


def analysis_candidates(work: WorkTable, wishes: AnalysisWork, snapshot: Snapshot) -> AnalysisCandidates:
    """The candidates of all chunks; equal wishes are looked up once."""
    unified = snapshot.unified
    names = [str(name) for name in unified.name]
    rows = len(work)
    initial = np.zeros((rows, len(snapshot.queues)), dtype=np.bool_)
    single, named = np.zeros(rows, dtype=np.bool_), np.zeros_like(initial)
    known: dict[tuple[str | None, str | None, str | None], tuple[Bools, bool, Bools]] = {}
    keys = zip(work.site.tolist(), wishes.included_sites.tolist(), wishes.excluded_sites.tolist(), strict=True)
    for row, key in enumerate(keys):
        if key not in known:
            queues, one, given = _of_wishes(*key, names, snapshot)
            known[key] = queues[snapshot.queues.unified], one, given[snapshot.queues.unified]
        initial[row], single[row], named[row] = known[key]
    return AnalysisCandidates(initial, single, named)


def _of_wishes(
    site: str | None, included: str | None, excluded: str | None, names: list[str], snapshot: Snapshot
) -> tuple[Bools, bool, Bools]:
    """(U,) candidates, whether ``site`` is one queue, and (U,) the queues that the task names."""
    is_site = np.array([name == site for name in names], dtype=np.bool_)
    single = bool(site) and bool(is_site.any())
    nobody = np.zeros(len(names), dtype=np.bool_)
    # a queue that the task names need not be one of analysis
    able: Bools = snapshot.unified.runs_analysis | (is_site if single else nobody)
    if excluded:
        able = able & ~matched(excluded, names)
    if not single:
        at_endpoint = _reading(snapshot, site) if site else nobody
        if at_endpoint.any():
            return able & at_endpoint, False, nobody
    named = is_site if single else nobody
    if included:
        listed = able & matched(included, names)
        if listed.any() or not has_auto(included):
            able = listed
            named = named | listed
    return (able & is_site if single else able), single, named


def _reading(snapshot: Snapshot, endpoint: str) -> Bools:
    """(U,): analysis queues that read the endpoint in the scope of analysis."""
    relations, storages = snapshot.relations, snapshot.storages
    at = np.flatnonzero(storages.name == endpoint)
    wanted = relations.is_input & (relations.scope == "analysis") & np.isin(relations.storage, at)
    found = np.zeros(len(snapshot.unified), dtype=np.bool_)
    found[relations.unified[wanted]] = True
    return np.asarray(found & snapshot.unified.runs_analysis)
