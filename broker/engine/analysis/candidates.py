"""Candidates of an analysis chunk: queues of analysis, without those that the user excludes.

Source: ATLAS Analysis Job Brokerage, preliminary candidates; PanDA analysis brokerage, candidate generation.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from broker.domain.analysis import AnalysisWork
from broker.domain.arrays import Bools, RowsByKind, numbered
from broker.domain.work import WorkTable
from broker.engine.analysis.queue_attributes import reads_for_analysis, scope_in_use
from broker.engine.analysis.steps import QueueListReading
from broker.snapshot.snapshot import Snapshot

AUTO = "AUTO"


@dataclass(frozen=True)
class AnalysisCandidates:
    """Candidates (T, Q), and how the queues of a chunk were named; one kind for each different wish.

    ``named`` (T, Q): by ``site`` or the list of included ones, so that they need not be online;
    ``one_preassigned`` (T,): by ``site``; ``reserve`` (T, Q): only ``AUTO`` in the list of included ones makes it a
    candidate; ``wanted`` (T, Q): the queues that the lists leave, where a rule checks them. ``at_queues`` (T, U) are
    the candidates by unified queue, without those of which no pseudo-queue is left.
    """

    initial: RowsByKind
    one_preassigned: Bools
    named: RowsByKind
    reserve: RowsByKind
    wanted: RowsByKind
    at_queues: RowsByKind


@lru_cache(maxsize=4096)
def matcher(items: str) -> re.Pattern[str] | None:
    """A pattern for any item of a comma-separated list; None for an empty list.

    ``*`` stands for any characters, everything else for itself; the whole name has to match, case-sensitive. ``AUTO``
    is no name.
    """
    names = [item.strip() for item in items.split(",")]
    patterns = [".*".join(map(re.escape, name.split("*"))) for name in names if name and name != AUTO]
    return re.compile("|".join(patterns), re.DOTALL) if patterns else None


def has_auto(items: str) -> bool:
    """Whether unlisted queues may be used when no listed one can."""
    return any(item.strip() == AUTO for item in items.split(","))


def matched(items: str, names: list[str]) -> Bools:
    """(U,): the unified queues that the list names."""
    if "*" not in items:
        listed = {item.strip() for item in items.split(",")} - {"", AUTO}
        return np.array([name in listed for name in names], dtype=np.bool_)
    pattern = matcher(items)
    matches = [pattern is not None and pattern.fullmatch(name) is not None for name in names]
    return np.array(matches, dtype=np.bool_)


def matches_anywhere(items: str, names: list[str]) -> Bools:
    """(U,): the queues that an item of the list names; one with ``*`` is searched for as a regular expression."""
    mask = np.zeros(len(names), dtype=np.bool_)
    for item in filter(None, items.split(",")):
        if "*" in item:
            with contextlib.suppress(re.error):
                pattern = re.compile(item.replace("*", ".*"))
                mask |= np.array([pattern.search(name) is not None for name in names], dtype=np.bool_)
        else:
            mask |= np.array([name == item for name in names], dtype=np.bool_)
    return mask


def analysis_candidates(
    work: WorkTable, analysis_request: AnalysisWork, snapshot: Snapshot, reading: QueueListReading | None = None
) -> AnalysisCandidates:
    """The candidates of all chunks; equal constraints are looked up once."""
    reading = reading or QueueListReading()
    names: list[str] = [str(name) for name in snapshot.unified.name.tolist()]
    columns = work.site, analysis_request.included_sites, analysis_request.excluded_sites
    known, kind = numbered(zip(*(column.tolist() for column in columns), strict=True))
    results = [
        _of_constraints(site, included, excluded, names, snapshot, reading) for site, included, excluded in known
    ]
    unified = snapshot.queues.unified
    # without work there are no kinds
    tables = np.array([tables for _, tables in results], dtype=np.bool_).reshape(len(results), 4, len(names))
    tables = tables.transpose(1, 0, 2)
    present = np.zeros(len(names), dtype=np.bool_)
    present[unified] = True
    initial, named, reserve, wanted = (RowsByKind(table.take(unified, axis=1), kind) for table in tables)
    one_preassigned = np.array([one_preassigned for one_preassigned, _ in results], dtype=np.bool_)[kind]
    return AnalysisCandidates(initial, one_preassigned, named, reserve, wanted, RowsByKind(tables[0] & present, kind))


def _of_constraints(
    site: str | None,
    included: str | None,
    excluded: str | None,
    names: list[str],
    snapshot: Snapshot,
    reading: QueueListReading,
) -> tuple[bool, tuple[Bools, Bools, Bools, Bools]]:
    """Whether ``site`` is one queue, and (U,) each the candidates, those named, the reserve, and what is wanted."""
    if reading.options.asked == "first":
        queues, one_preassigned, named, exempt = _of_analysis_request(
            site, included, excluded, names, snapshot, reading
        )
        return one_preassigned, (queues, named, exempt, np.ones_like(queues))
    queues, one_preassigned, named, exempt, last = _of_rule_request(site, included, excluded, names, snapshot, reading)
    return one_preassigned, (queues, named, exempt, last)


def _of_analysis_request(
    site: str | None,
    included: str | None,
    excluded: str | None,
    names: list[str],
    snapshot: Snapshot,
    reading: QueueListReading,
) -> tuple[Bools, bool, Bools, Bools]:
    """(U,) candidates, whether ``site`` is one queue, (U,) the queues that the task names, and (U,) the reserve."""
    is_site = _named_by(site, names, snapshot)
    one_preassigned = bool(is_site.any())
    no_queues = np.zeros(len(names), dtype=np.bool_)
    # a queue that the task names need not be one of analysis
    able: Bools = snapshot.unified.runs_analysis | (is_site if one_preassigned else no_queues)
    if excluded:
        able = able & ~_matched(excluded, names, reading)
    if not one_preassigned:
        at_endpoint = _reading(snapshot, site, reads_for_analysis(snapshot)) if site else no_queues
        if at_endpoint.any():
            return able & at_endpoint, False, no_queues, no_queues
    named, reserve = is_site if one_preassigned else no_queues, no_queues
    if included:
        listed = able & _matched(included, names, reading)
        if has_auto(included) and not one_preassigned:
            reserve = able & ~listed
            named = listed
        elif listed.any() or not has_auto(included):
            able = listed
            named = named | listed
    return (able & is_site if one_preassigned else able), one_preassigned, named, reserve


def _named_by(site: str | None, names: list[str], snapshot: Snapshot) -> Bools:
    """(U,): the queue of this name, if it is on the map: a queue without a cloud is not."""
    with_cloud = np.array([bool(cloud) for cloud in snapshot.unified.cloud.tolist()], dtype=np.bool_)
    on_map = with_cloud | snapshot.unified.runs_analysis
    return np.array([bool(site) and name == site for name in names], dtype=np.bool_) & on_map


def _matched(items: str, names: list[str], reading: QueueListReading) -> Bools:
    return matched(items, names) if reading.options.star == "whole_name" else matches_anywhere(items, names)


def _of_rule_request(
    site: str | None,
    included: str | None,
    excluded: str | None,
    names: list[str],
    snapshot: Snapshot,
    reading: QueueListReading,
) -> tuple[Bools, bool, Bools, Bools, Bools]:
    """Like :func:`_of_analysis_request`, and (U,) the requested queues, which a rule checks later."""
    is_site = _named_by(site, names, snapshot)
    one_preassigned = bool(is_site.any())
    able: Bools = snapshot.unified.runs_analysis.copy()
    no_queues, wanted = np.zeros_like(able), np.ones_like(able)
    named = wanted if included else is_site if one_preassigned else no_queues
    listed = _matched(included, names, reading) if included else wanted
    auto = bool(included) and AUTO in str(included).split(",")
    if one_preassigned:
        able |= is_site & _by_itself(names, snapshot)
    elif site:
        at_endpoint = _reading(snapshot, site, scope_in_use(snapshot, True))
        # the queues of an endpoint replace the list
        listed, auto = (at_endpoint if at_endpoint.any() else wanted), False
    if excluded:
        wanted = wanted & ~_matched(excluded, names, reading)
    reserve = wanted & ~listed if auto else no_queues
    wanted = wanted & (listed | reserve)
    return able, one_preassigned, named, reserve, (wanted & is_site if one_preassigned else wanted)


def _by_itself(names: list[str], snapshot: Snapshot) -> Bools:
    """(U,): queues without pseudo-queues, which have names of their own."""
    return np.isin(np.array(names, dtype=np.str_), snapshot.queues.name.astype(np.str_))


def _reading(snapshot: Snapshot, endpoint: str, reads: Bools) -> Bools:
    """(U,): analysis queues that read the endpoint through one of the relations (L,) ``reads``."""
    mask = np.zeros(len(snapshot.unified), dtype=np.bool_)
    positions = [position for position, name in enumerate(snapshot.storages.name.tolist()) if name == endpoint]
    if positions:
        relations = snapshot.relations
        for storage in positions:
            mask[relations.unified[reads & (relations.storage == storage)]] = True
    return np.asarray(mask & snapshot.unified.runs_analysis)
