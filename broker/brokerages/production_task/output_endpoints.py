"""The endpoints at which each nucleus would store the output of the tasks, each distinct token looked up once.

Source: PanDA production brokerage, nucleus objects; ATLAS Production Task Brokerage, associated storages.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Ints, codes_of, distinct, texts
from broker.domain.kept import Kept
from broker.domain.output_endpoints import OutputEndpoints
from broker.domain.task_work import OutputTable
from broker.rules.production_task.storage_tokens import endpoint_for, is_distributed, wanted_token
from broker.snapshot.snapshot import Snapshot

#: Tokens that are remembered for as long as the storages stay as they are; there are few, but tasks may name any.
MOST_TOKENS = 1000


class NucleusOutputs:
    """The output endpoints of the nuclei of a snapshot, and which of them the tokens that were asked for mean."""

    def __init__(self, snapshot: Snapshot) -> None:
        storages = snapshot.storages
        self._places = [
            (places, [str(name) for name in storages.name[places]], list(storages.type[places]))
            for places in local_outputs(snapshot)
        ]
        self._known: dict[str, Ints] = {}

    def own(self, token: str) -> Ints:
        """(N,): the endpoint of each nucleus that a token, as :func:`wanted_token` gives it, means; -1 for none."""
        found = self._known.get(token)
        if found is None:
            if len(self._known) >= MOST_TOKENS:
                self._known = {}
            at = [endpoint_for(token, names, types) for _, names, types in self._places]
            endpoints = [places[one] if one >= 0 else -1 for one, (places, _, _) in zip(at, self._places, strict=True)]
            found = self._known[token] = np.array(endpoints, dtype=np.int64)
        return found


_outputs = Kept[NucleusOutputs]()


def output_endpoints(outputs: OutputTable, snapshot: Snapshot) -> OutputEndpoints:
    """Where the datasets would go at every nucleus of the snapshot."""
    tokens, token_of = distinct(outputs.storagetoken)
    spread = np.array([is_distributed(token) for token in tokens], dtype=np.bool_)
    wanted, code = distinct(texts(map(wanted_token, tokens)))
    nuclei = snapshot.nuclei
    parts = (snapshot.relations, snapshot.unified, snapshot.storages, nuclei)
    known = _outputs.of(parts, lambda: NucleusOutputs(snapshot))
    own = np.array([known.own(token or "") for token in wanted], dtype=np.int64).reshape(len(wanted), len(nuclei))
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
