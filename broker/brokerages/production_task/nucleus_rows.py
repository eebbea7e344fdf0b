"""The nuclei of a cycle as rows and columns, with the endpoint and storage token of every output dataset."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.brokerages.production_task.assign import AssignedTask
from broker.brokerages.replayed_columns import ReplayedColumns
from broker.domain.arrays import Ints, codes_of, distinct, texts
from broker.domain.identity_cache import Kept
from broker.domain.output_endpoints import OutputEndpoints
from broker.domain.task_placements import NucleusAssignment, OutputPlace, TaskPlacement, WaitingTask
from broker.domain.task_work import OutputTable
from broker.engine.task.cycle import TaskCycle
from broker.engine.task.decision import DecidedBlock
from broker.rules.production_task.storage_tokens import endpoint_for, is_distributed, placed_token, wanted_token
from broker.snapshot.snapshot import Snapshot


def nucleus_rows(placed: Sequence[AssignedTask], cycle: TaskCycle) -> TaskPlacement:
    """Everything that the tasks in ``placed`` want to have written."""
    tasks = cycle.work.tasks
    assigned, waiting = [], []
    for task in placed:
        jeditaskid = int(tasks.jeditaskid[task.row])
        seen = tasks.nucleus[task.row]
        if task.nucleus is None:
            waiting.append(WaitingTask(jeditaskid, seen, task.decision.reason))
            continue
        name = str(cycle.snapshot.nuclei.name[task.nucleus])
        assigned.append(NucleusAssignment(jeditaskid, seen, name, _places(cycle, task.row, task.nucleus)))
    return TaskPlacement(tuple(assigned), tuple(waiting))


def _places(cycle: TaskCycle, row: int, nucleus: int) -> tuple[OutputPlace, ...]:
    """The datasets of a task and their endpoints; distributed ones, and those without an endpoint, stay as they are."""
    outputs, endpoints = cycle.work.outputs, cycle.endpoints
    first, last = np.searchsorted(outputs.task, (row, row + 1))
    places = []
    for at in range(int(first), int(last)):
        token = int(endpoints.token[at])
        storage = int(endpoints.written[token, nucleus]) if token >= 0 else -1
        if storage >= 0:
            seen = outputs.storagetoken[at]
            endpoint = str(cycle.snapshot.storages.name[storage])
            places.append(OutputPlace(int(outputs.datasetid[at]), seen, placed_token(seen, endpoint)))
    return tuple(places)


def columns_of(cycle: TaskCycle, blocks: Sequence[DecidedBlock]) -> ReplayedColumns:
    """The tasks of all blocks of a cycle; there is one block at least."""
    outcomes = [one for block in blocks for one in block.outcomes]
    return ReplayedColumns(
        names=cycle.snapshot.nuclei.name,
        outcome=texts(outcome for outcome, _ in outcomes),
        reason=texts(reason for _, reason in outcomes),
        chosen=np.concatenate([block.chosen for block in blocks]),
        jobs=np.concatenate([block.tasks_at for block in blocks]),
        position=np.concatenate([block.position for block in blocks]),
        codes=cycle.legend.codes,
        cycle=cycle,
    )


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
