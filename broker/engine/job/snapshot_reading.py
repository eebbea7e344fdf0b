"""How a brokerage reads the snapshot, where the specification and PanDA read the same rows in different ways."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, TypeVar

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, IdentityCache, Ints, frozen, taken
from broker.domain.grid import LinkMatrix, StorageTable
from broker.domain.queues import QueueTable, UnifiedTable
from broker.rules.contract import Options, Step
from broker.snapshot.snapshot import Snapshot

TableT = TypeVar("TableT")
_parents = IdentityCache[Bools]()
_ACTIVITIES = ("read_lan", "write_lan", "read_wan", "write_wan")


class SnapshotReadingOptions(Options):
    """Readings of the snapshot.

    Attributes:
        endpoint_status: which activities of an endpoint are usable: those that are ON (or not published), or all that
            are neither OFF nor TEST.
        minrss: of a pseudo-queue whose resource type has no ``minrampercore``: the slot's in proportion to the cores,
            or the slot's whole one where that is larger.
        unified_parents: unified queues are rows of their own, which a list of pre-assigned queues can name.
        null_rss: a unified queue without ``maxrss`` or ``minrss`` is unlimited, or ends the expansion into
            pseudo-queues: it and the unified queues after it, by name, are queues like any other.
        without_cloud: a queue without a cloud is on no map; or only one that runs production is not, so that queues of
            analysis alone are.
        throughput: the newest window that has a figure, or the week's, unless the day's and the hour's follow without a
            gap.
    """

    endpoint_status: Literal["on", "not_off_or_test"] = "on"
    minrss: Literal["scaled", "whole"] = "scaled"
    unified_parents: bool = False
    null_rss: Literal["unlimited", "ends_expansion"] = "unlimited"
    without_cloud: Literal["on_no_map", "analysis_on_map"] = "on_no_map"
    throughput: Literal["newest", "week_first"] = "newest"


class SnapshotReading(Step):
    """The snapshot as the brokerage reads it: the same rows, some figures read in another way."""

    name = "snapshot_reading"
    title = "How endpoints, memory of pseudo-queues, unified queues and throughput are read"
    options: SnapshotReadingOptions = SnapshotReadingOptions()

    def read(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as the options read it; the same object if all have their defaults."""
        options, changes = self.options, dict[str, Any]()
        if options.endpoint_status != "on":
            changes["storages"] = _not_off_or_test(snapshot.storages)
        if options.throughput != "newest":
            changes["links"] = _week_first(snapshot.links)
        if options.without_cloud != "on_no_map":
            changes["unified"] = _with_cloudless(snapshot.unified)
        queues = snapshot.queues
        if options.minrss == "whole":
            queues = _whole_minrss(queues, snapshot)
        if options.null_rss == "ends_expansion":
            queues = _unexpanded(queues, snapshot)
        if options.unified_parents:
            queues = _with_parents(queues, snapshot.parents)
        if queues is not snapshot.queues:
            changes["queues"] = queues
        return dataclasses.replace(snapshot, **changes) if changes else snapshot


def is_parent(queues: QueueTable) -> Bools:
    """(Q,): the row is a unified queue itself, which is no candidate unless it is named."""
    return _parents.of((queues.name, queues.unified_name), lambda: _is_parent(queues))


def _is_parent(queues: QueueTable) -> Bools:
    names = queues.unified_name.tolist()
    with_children = {of for name, of in zip(queues.name.tolist(), names, strict=True) if name != of}
    own = queues.name == queues.unified_name
    return frozen(np.asarray(own & np.array([name in with_children for name in names], dtype=np.bool_)))


def _not_off_or_test(storages: StorageTable) -> StorageTable:
    return dataclasses.replace(
        storages, **{activity: getattr(storages, f"open_{activity}") for activity in _ACTIVITIES}
    )


def _with_cloudless(unified: UnifiedTable) -> UnifiedTable:
    on_map = unified.runs_analysis | unified.cloudless_analysis
    return dataclasses.replace(unified, runs_analysis=frozen(np.asarray(on_map)))


def _week_first(links: LinkMatrix) -> LinkMatrix:
    with_day = np.where(np.isnan(links.mbps_1d), links.mbps_1w, links.mbps_1d)
    with_hour = np.where(np.isnan(links.mbps_1d) | np.isnan(links.mbps_1h), with_day, links.mbps_1h)
    value = np.where(np.isnan(links.mbps_1w), np.nan, with_hour)
    nothing = frozen(np.full_like(value, np.nan))
    return dataclasses.replace(links, mbps_1h=frozen(value), mbps_1d=nothing, mbps_1w=nothing)


def _parent_figure(snapshot: Snapshot, figure: str) -> Floats:
    """(U,): a figure of the unified queues that have pseudo-queues, NaN for the others."""
    result = np.full(len(snapshot.unified), np.nan)
    result[snapshot.parents.unified] = getattr(snapshot.parents, figure)
    return result


def _whole_minrss(queues: QueueTable, snapshot: Snapshot) -> QueueTable:
    kinds = snapshot.types_without_minrampercore
    of_type = np.array([kind in kinds for kind in queues.resource_type.tolist()], dtype=np.bool_)
    whole = np.fmax(queues.minrss_mb, _parent_figure(snapshot, "minrss_mb")[queues.unified])
    return dataclasses.replace(queues, minrss_mb=frozen(np.where(of_type, whole, queues.minrss_mb)))


def _unexpanded(queues: QueueTable, snapshot: Snapshot) -> QueueTable:
    parents = snapshot.parents
    bad = np.flatnonzero(np.isnan(parents.maxrss_mb) | np.isnan(parents.minrss_mb))
    if not len(bad):
        return queues
    plain: Ints = np.arange(bad[0], len(parents))
    stays = ~np.isin(queues.unified, parents.unified[plain])
    return _joined(taken(queues, np.flatnonzero(stays)), taken(parents, plain))


def _with_parents(queues: QueueTable, parents: QueueTable) -> QueueTable:
    there = set(queues.name.tolist())
    new = np.flatnonzero([name not in there for name in parents.name.tolist()])
    return _joined(queues, taken(parents, new)) if len(new) else queues


def _joined(one: QueueTable, other: QueueTable) -> QueueTable:
    columns: dict[str, AnyArray] = {
        field.name: np.concatenate([getattr(one, field.name), getattr(other, field.name)])
        for field in dataclasses.fields(one)
    }
    order = np.array(sorted(range(len(columns["name"])), key=lambda at: str(columns["name"][at])), dtype=np.int64)
    return QueueTable(**{name: frozen(column[order]) for name, column in columns.items()})
