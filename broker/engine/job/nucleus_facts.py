"""Figures of candidates against nuclei: the same for all chunks of a cycle, taken by each chunk's nucleus.

Every table has one row more than there are nuclei: the last row stands for "no nucleus", so that index -1 selects it.
Source: ATLAS Production Job Brokerage, links and nucleus storage; PanDA production brokerage, network data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, IdentityCache, Ints, RowsByKind, codes_of
from broker.domain.queues import BARE_NONE
from broker.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class NucleusStats:
    """Figures by nucleus (N + 1,), by nucleus and candidate (N + 1, Q), and of links (2 (N + 1), S).

    The second half of the figures of links is for express chunks, which read other queues of files. Candidates with the
    same storage site have the same links, so there is a column for each of S sites.
    """

    bare: Ints
    wan: Bools
    receives: Bools
    is_satellite: Bools
    total_queued: Floats
    total_queued_urgent: Floats
    at_nucleus: Bools
    shares_storage: Bools
    link: Ints  # (Q,) the column of each candidate's links
    storage_at_nucleus: Bools
    closeness: Floats
    queued: Floats
    throughput_mb_per_s: Floats


_stats = IdentityCache[NucleusStats]()


def nucleus_stats(snapshot: Snapshot) -> NucleusStats:
    """The figures of all nuclei of a snapshot."""
    queues, storages = snapshot.queues, snapshot.storages
    inputs = (
        snapshot.nuclei, snapshot.links, snapshot.shares_storage, storages.read_wan, storages.write_wan,
        queues.storage_site, queues.nucleus, queues.unified,
    )  # fmt: skip
    return _stats.of(inputs, lambda: _stats_of(snapshot))


def _stats_of(snapshot: Snapshot) -> NucleusStats:
    queues, nuclei, links = snapshot.queues, snapshot.nuclei, snapshot.links
    wan = np.ones(len(nuclei), dtype=np.bool_)
    known = nuclei.output_storage >= 0
    receives = wan.copy()
    wan[known] = (snapshot.storages.read_wan & snapshot.storages.write_wan)[nuclei.output_storage[known]]
    receives[known] = snapshot.storages.write_wan[nuclei.output_storage[known]]
    source, link = np.unique(queues.storage_site, return_inverse=True)
    own_site = codes_of(nuclei.name, list(links.sites))
    return NucleusStats(
        bare=_with_none(nuclei.bare, BARE_NONE),
        wan=_with_none(wan, True),
        receives=_with_none(receives, True),
        is_satellite=_with_none(~nuclei.is_nucleus, False),
        total_queued=_with_none(links.total_queued, 0.0),
        total_queued_urgent=_with_none(links.total_queued_urgent, 0.0),
        at_nucleus=_with_none(np.arange(len(nuclei))[:, None] == queues.nucleus[None, :], False),
        shares_storage=_with_none(snapshot.shares_storage[:, queues.unified], False),
        link=link.ravel(),
        storage_at_nucleus=_twice((own_site[:, None] == source[None, :]) & (source >= 0)[None, :], False),
        closeness=_twice(_at_links(links.closeness, source), np.nan),
        queued=np.concatenate(
            [_with_none(_at_links(table, source), np.nan) for table in (links.queued, links.queued_urgent)]
        ),
        throughput_mb_per_s=_twice(_at_links(_newest(links.mbps_1h, links.mbps_1d, links.mbps_1w), source), np.nan),
    )


def nucleus_facts(stats: NucleusStats, nucleus: Ints, urgent: Bools) -> dict[str, Any]:
    """Fields of ``JobFacts`` of chunks with these nuclei (-1: none); express chunks read the Express queues."""
    total = np.where(urgent, stats.total_queued_urgent[nucleus], stats.total_queued[nucleus])
    return {
        "has_nucleus": (nucleus >= 0)[:, None],
        "nucleus_bare": stats.bare[nucleus][:, None],
        "nucleus_wan": stats.wan[nucleus][:, None],
        "nucleus_receives": stats.receives[nucleus][:, None],
        "nucleus_is_satellite": stats.is_satellite[nucleus][:, None],
        "nucleus_queued": total[:, None],
    }


def nucleus_pair_facts(stats: NucleusStats, nucleus: Ints, urgent: Bools) -> dict[str, RowsByKind]:
    """Facts of pairs of a nucleus and a queue, by kind: chunks with the same nucleus share rows."""
    size = len(stats.bare)
    of_nucleus = nucleus % size
    of_link = of_nucleus + size * urgent
    places = {name: RowsByKind(getattr(stats, name), of_nucleus) for name in ("at_nucleus", "shares_storage")}
    links = {
        "storage_at_nucleus": stats.storage_at_nucleus,
        "closeness": stats.closeness,
        "link_queued": stats.queued,
        "throughput_mb_per_s": stats.throughput_mb_per_s,
    }
    return {**places, **{name: RowsByKind(table, of_link, stats.link) for name, table in links.items()}}


def _with_none(table: AnyArray, none: float | bool) -> Any:
    return np.concatenate([table, np.full((1, *table.shape[1:]), none, dtype=table.dtype)])


def _twice(table: AnyArray, none: float | bool) -> Any:
    """The table once for chunks that are not express, and once for those that are."""
    return np.tile(_with_none(table, none), (2, 1))


def _at_links(matrix: Floats, source: Ints) -> Floats:
    """(N, S): the figure of the link from each storage site to each nucleus, NaN for site -1."""
    if not len(matrix):
        return np.full((matrix.shape[1], len(source)), np.nan)
    return np.where((source >= 0)[None, :], matrix[np.maximum(source, 0)].T, np.nan)


def _newest(*windows: Floats) -> Floats:
    """The first window that has a figure: last hour, else day, else week."""
    result = windows[-1]
    for window in windows[-2::-1]:
        result = np.where(np.isnan(window), result, window)
    return result
