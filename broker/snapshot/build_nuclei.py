"""Nuclei and satellites, from queues, sites and storages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Ints, texts
from broker.domain.grid import NucleusTable, RelationTable
from broker.snapshot.draft import Draft
from broker.snapshot.queue_rows import QueueRecord
from broker.snapshot.sources.queues import QUEUES
from broker.snapshot.sources.storages import STORAGES


def nuclei_of(draft: Draft) -> NucleusTable:
    """The nuclei of a snapshot under construction."""
    return draft.once(_nuclei)


def outputs_of(draft: Draft) -> Ints:
    """(U,): the default output endpoint of each unified queue of a snapshot under construction, -1 if it has none."""
    return draft.once(_outputs)


def _nuclei(draft: Draft) -> NucleusTable:
    known = draft.of(QUEUES)
    return build_nuclei(known.records, known.site_of_queue, known.sites, outputs_of(draft))


def _outputs(draft: Draft) -> Ints:
    return default_outputs(draft.of(STORAGES).relations, len(draft.of(QUEUES).records))


def default_outputs(relations: RelationTable, unified: int) -> Ints:
    """(U,): the default output endpoint of each unified queue in scope default, -1 if it has none."""
    result = np.full(unified, -1, dtype=np.int64)
    is_default = relations.default_write & relations.is_output & (relations.scope == "default")
    result[relations.unified[is_default]] = relations.storage[is_default]
    return result


def build_nuclei(
    records: list[QueueRecord],
    site_of_queue: dict[str, str],
    sites: dict[str, tuple[str | None, str | None]],
    outputs: Ints,
) -> NucleusTable:
    """Nuclei and satellites: ATLAS sites with a production queue; attributes are those of the first queue by name."""
    first: dict[str, int] = {}
    for index, record in enumerate(records):
        site = site_of_queue.get(record.name)
        if site is None or not record.runs_production or not record.cloud:
            continue
        if sites.get(site, (None, None))[0] in ("nucleus", "satellite"):
            first.setdefault(site, index)
    names = sorted(first)
    return NucleusTable(
        name=texts(names),
        is_nucleus=np.array([sites[site][0] == "nucleus" for site in names], dtype=np.bool_),
        # CRIC sites that are not ACTIVE never reach the table, so an unset state is an active one
        state=texts(sites[site][1] or "ACTIVE" for site in names),
        bare=np.array([records[first[site]].bare_nucleus for site in names], dtype=np.int64),
        secondary=texts(records[first[site]].secondary_nucleus for site in names),
        output_storage=np.array([outputs[first[site]] for site in names], dtype=np.int64),
        first_unified=np.array([first[site] for site in names], dtype=np.int64),
    )


def storage_sharing(unified: Mapping[str, Any], relations: RelationTable, outputs: Ints, nuclei: NucleusTable) -> Bools:
    """(N, U): online queues that write by default where the first queue of the nucleus reads.

    ``unified``: columns of the table of unified queues by name.

    A sharing queue must run what that first queue runs. Source: PanDA production brokerage, sites sharing storage.
    """
    sharing = np.zeros((len(nuclei), len(unified["status"])), dtype=np.bool_)
    inputs = relations.is_input & (relations.scope == "default")
    online = unified["status"] == "online"
    for index, first in enumerate(nuclei.first_unified):
        readable = relations.storage[inputs & (relations.unified == first)]
        able = online & (outputs >= 0) & np.isin(outputs, readable)
        if unified["runs_production"][first]:
            able &= unified["runs_production"]
        if unified["runs_analysis"][first]:
            able &= unified["runs_analysis"]
        sharing[index] = able
    return sharing
