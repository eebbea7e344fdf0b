"""What must be present before anything can be brokered, and what is missing: a check list of one snapshot. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from broker.domain.classification import DEFAULT_SHARE
from broker.domain.installation_vo import DEFAULT_VO
from broker.domain.ready_check import Check, Level
from broker.snapshot.snapshot import Snapshot

NEEDED = ("queues", "resource_types", "storages")
"""Sources of a snapshot that are required to find a nucleus."""
GB_A_TB = 1024.0
MOST_NAMED = 3
_FILE = "write it in sites.yaml and import it (broker import sites), or see what feeds it"


@dataclass(frozen=True)
class Surroundings:
    """Facts that a snapshot does not hold.

    Attributes:
        vo: VO of the installation.
        shares: names of the global shares.
        waiting_cap: jobs that may wait at a queue of a task without a share (NQUEUELIMITSITE).
        disk_threshold_tb: usable space that a nucleus must keep (DISK_THRESHOLD).
        pilots_needed: whether the profile places jobs only at queues where pilots were seen.
    """

    vo: str
    shares: Sequence[str]
    waiting_cap: float
    disk_threshold_tb: float
    pilots_needed: bool


def checks(snapshot: Snapshot, around: Surroundings) -> tuple[Check, ...]:
    """The check list, in the order in which to fix problems."""
    return (
        _vo(around),
        _shares(around),
        _sources(snapshot),
        _resource_types(snapshot),
        _queues(snapshot),
        _endpoints(snapshot),
        _nuclei(snapshot, around),
        _pilots(snapshot, around),
    )


def missing(check_list: Sequence[Check]) -> tuple[Check, ...]:
    """The checks that keep everything from being brokered."""
    return tuple(check for check in check_list if check.level == "problem")


def why_queues_are_not_usable(snapshot: Snapshot) -> dict[str, str]:
    """For each queue that takes no jobs at all, all its faults; dropped rows are included."""
    unified, candidates = snapshot.unified, snapshot.queues
    faults: dict[str, str] = {
        row.identifier: f"its record cannot be used: {row.detail}"
        for row in snapshot.dropped_rows
        if row.source == "queues" and row.code != "defaulted"
    }
    on_record = set(map(str, snapshot.nuclei.name))
    for index, name in enumerate(map(str, unified.name)):
        own = candidates.unified == index
        queue_faults = [
            f"status {unified.status[index]}" if unified.status[index] != "online" else "",
            "" if unified.cloud[index] else "no cloud, so it is on no map and its site is no nucleus",
            _site_fault(unified.atlas_site[index], on_record, bool(unified.runs_production[index])),
            "" if own.any() else "no resource type fits its cores",
            "no endpoint to write to" if own.any() and bool((candidates.output_storage[own] < 0).all()) else "",
        ]
        if any(queue_faults):
            faults[name] = "; ".join(filter(None, queue_faults))
    return dict(sorted(faults.items()))


def _site_fault(site: object, on_record: set[str], runs_production: bool) -> str:
    if not site:
        return "it belongs to no site (panda_site)"
    # sites without a production queue that has a cloud are in no snapshot
    missing = runs_production and str(site) not in on_record
    return f"site {site} is on record as neither nucleus nor satellite" if missing else ""


def _vo(around: Surroundings) -> Check:
    if around.vo == DEFAULT_VO:
        return _check("vo", "note", f"the VO is {DEFAULT_VO}, PanDA's own", "make it yours with broker init --vo NAME")
    return _check("vo", "ok", f"the VO is {around.vo}")


def _shares(around: Surroundings) -> Check:
    number = len(around.shares)
    if DEFAULT_SHARE in around.shares:
        cap = f"{around.waiting_cap:g} jobs of {DEFAULT_SHARE} may wait at a queue (NQUEUELIMITSITE_{DEFAULT_SHARE})"
        return _check("shares", "ok", f"{number} on record; {cap}")
    what = f"{number} on record, none of them {DEFAULT_SHARE}: tasks that name no share have none"
    return _check("shares", "note", what, f"broker share set {DEFAULT_SHARE} 100 --reason TEXT")


def _sources(snapshot: Snapshot) -> Check:
    why = {
        state.name: f"{state.state}"
        + ("" if state.age_s is None else f", {state.age_s:,.0f} s old, limit {state.limit_s:,.0f} s")
        for state in snapshot.states
        if state.name in NEEDED and state.state in ("stale", "failed", "missing")
    }
    stale = {name: text for name, text in why.items() if not text.startswith("missing")}
    if stale:
        what = f"{', '.join(f'{name} is {text}' for name, text in sorted(stale.items()))}"
        remedy = "import it again, or see what feeds it (broker import log) and sources.yaml for the limits"
        return Check("sources", "problem", len(NEEDED) - len(why), len(NEEDED), what, remedy, stale)
    return Check("sources", "ok", len(NEEDED) - len(why), len(NEEDED), "nothing is stale", "", why)


def _resource_types(snapshot: Snapshot) -> Check:
    names = [resource_type.name for resource_type in snapshot.resource_types]
    if not names:
        remedy = "broker init --vo NAME, or resource_types in sites.yaml"
        return _check("resource_types", "problem", "none: unified queues have no candidates", remedy, 0)
    return _check("resource_types", "ok", ", ".join(names), "", len(names))


def _queues(snapshot: Snapshot) -> Check:
    why = why_queues_are_not_usable(snapshot)
    names = {*map(str, snapshot.unified.name), *why}
    usable = len(names) - len(why)
    if not names:
        remedy = "describe them in sites.yaml, then broker import sites FILE; or broker import cric"
        return _check("queues", "problem", "no queue is on record", remedy, 0)
    level: Level = "problem" if not usable else "note" if why else "ok"
    return Check("queues", level, usable, len(names), _others(usable, names, why), _FILE if why else "", why)


def _endpoints(snapshot: Snapshot) -> Check:
    storages = snapshot.storages
    names = list(map(str, storages.name))
    if not names:
        return _check("endpoints", "problem", "no endpoint is on record: jobs have nowhere to write", _FILE, 0)
    why: dict[str, str] = {}
    for index, name in enumerate(names):
        closed = [
            activity
            for activity in ("read_lan", "write_lan", "read_wan", "write_wan")
            if not getattr(storages, activity)[index]
        ]
        faults = [f"closed for {', '.join(closed)}" if closed else ""]
        faults += ["space unknown" if not storages.is_tape[index] and np.isnan(storages.space_free_gb[index]) else ""]
        if any(faults):
            why[name] = "; ".join(filter(None, faults))
    usable = len(names) - len(why)
    level: Level = "note" if why else "ok"
    return Check("endpoints", level, usable, len(names), _others(usable, names, why), _FILE if why else "", why)


def _nuclei(snapshot: Snapshot, around: Surroundings) -> Check:
    nuclei = snapshot.nuclei
    rows = np.flatnonzero(nuclei.is_nucleus).tolist()
    if not rows:
        what = "no nucleus: that is a site with the role nucleus and a production queue that has a cloud"
        return _check("nuclei", "problem", what, _FILE, 0)
    names = [str(nuclei.name[row]) for row in rows]
    why = {str(nuclei.name[row]): "; ".join(faults) for row in rows if (faults := list(_faults(snapshot, row, around)))}
    usable = len(rows) - len(why)
    level: Level = "problem" if not usable else "note" if why else "ok"
    remedy = "give it space, lower DISK_THRESHOLD, or open its endpoint; see broker nucleus NAME" if why else ""
    return Check("nuclei", level, usable, len(rows), _others(usable, names, why), remedy, why)


def _faults(snapshot: Snapshot, nucleus: int, around: Surroundings) -> Iterator[str]:
    """What keeps all tasks from a nucleus, whatever they request."""
    nuclei, storages = snapshot.nuclei, snapshot.storages
    if nuclei.state[nucleus] != "ACTIVE":
        yield f"state {nuclei.state[nucleus]}"
    row = int(nuclei.output_storage[nucleus])
    if row < 0:
        yield "its first queue has no endpoint to write to"
        return
    name, free = storages.name[row], float(storages.space_free_gb[row] + np.nan_to_num(storages.space_expired_gb[row]))
    limit = around.disk_threshold_tb * GB_A_TB
    if np.isnan(free):
        yield f"the space of {name} is unknown"
    elif free <= limit:
        yield f"{name} has {free:,.0f} GB, limit above {limit:,.0f} GB (DISK_THRESHOLD)"
    if not storages.write_wan[row]:
        yield f"{name} is closed for write_wan"


def _pilots(snapshot: Snapshot, around: Surroundings) -> Check:
    unified = snapshot.unified
    out_of_use = why_queues_are_not_usable(snapshot)
    rows = [row for row, name in enumerate(map(str, unified.name)) if name not in out_of_use]
    without = [str(unified.name[row]) for row in rows if not unified.n_pilots[row] > 0]
    seen = len(rows) - len(without)
    level: Level = "ok" if not without else "problem" if around.pilots_needed and not seen else "note"
    what = f"seen in 3 h at {seen} of {len(rows)} usable queues"
    if without and not around.pilots_needed:
        what += "; jobs are placed all the same, and run where pilots fetch them"
    remedy = "send pilots there (docs/how-to/run-pilots.md); they are counted every 4 min" if without else ""
    return Check("pilots", level, seen, len(rows), what, remedy, dict.fromkeys(without, "no pilot was seen in 3 h"))


def _others(usable: int, names: Sequence[str] | set[str], why: Mapping[str, str]) -> str:
    """``2 of 3 are usable; not A: no cloud``."""
    named = [f"{name}: {text}" for name, text in list(why.items())[:MOST_NAMED]]
    more = f"; and {len(why) - len(named)} more" if len(why) > len(named) else ""
    head = f"{usable} of {len(names)} usable"
    return f"{head}; not {'; not '.join(named)}{more}" if named else head


def _check(topic: str, level: Level, what: str, remedy: str = "", number: int | None = None) -> Check:
    return Check(topic, level, number, number, what, remedy, {})
