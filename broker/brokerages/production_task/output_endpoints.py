"""The endpoints at which each nucleus would store the output of the tasks, each distinct token looked up once.

Source: PanDA production brokerage, nucleus objects; ATLAS Production Task Brokerage, associated storages.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Ints, codes_of, distinct, texts
from broker.domain.output_endpoints import OutputEndpoints
from broker.domain.task_work import OutputTable
from broker.rules.production_task.storage_tokens import endpoint_for, is_distributed, wanted_token
from broker.snapshot.snapshot import Snapshot


def output_endpoints(outputs: OutputTable, snapshot: Snapshot) -> OutputEndpoints:
    """Where the datasets would go at every nucleus of the snapshot."""
    tokens, token_of = distinct(outputs.storagetoken)
    spread = np.array([is_distributed(token) for token in tokens], dtype=np.bool_)
    wanted, code = distinct(texts(map(wanted_token, tokens)))
    nuclei, storages = snapshot.nuclei, snapshot.storages
    own = np.full((len(wanted), len(nuclei)), -1, dtype=np.int64)
    for column, places in enumerate(local_outputs(snapshot)):
        names = [str(name) for name in storages.name[places]]
        types = list(storages.type[places])
        for row, token in enumerate(wanted):
            at = endpoint_for(token or "", names, types)
            own[row, column] = places[at] if at >= 0 else -1
    other = codes_of(nuclei.secondary, list(nuclei.name))
    secondary = np.where(other >= 0, own[:, np.maximum(other, 0)], -1) if len(nuclei) else own
    satellite_default = np.where(nuclei.is_nucleus, -1, nuclei.output_storage)
    return OutputEndpoints(
        token=np.where(spread, -1, code)[token_of],
        own=own,
        secondary=secondary,
        written=np.where(own >= 0, own, satellite_default),
        has_secondary=np.array([name is not None for name in nuclei.secondary], dtype=np.bool_),
    )


def local_outputs(snapshot: Snapshot) -> list[Ints]:
    """For each nucleus its local output endpoints, of all scopes, by queue and then by name."""
    relations, unified = snapshot.relations, snapshot.unified
    usable = relations.is_output & relations.is_local & unified.runs_production[relations.unified]
    # relations are sorted by queue, then endpoint, and both of these by name
    queue, storage = relations.unified[usable], relations.storage[usable]
    site = codes_of(unified.atlas_site, list(snapshot.nuclei.name))[queue]
    return [
        np.array(list(dict.fromkeys(storage[site == nucleus].tolist())), dtype=np.int64)
        for nucleus in range(len(snapshot.nuclei))
    ]
