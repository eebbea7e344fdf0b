"""A cycle of the task brokerage from tasks to nuclei: weigh, draw, count the work, and go on to the next task.

Pure and seeded: the same snapshot, work, tuning and seed give the same nuclei. :func:`columns_of` gives the outcome of
a cycle as columns, and :func:`nucleus_rows` what is to be written, with the endpoint and storage token of every output
dataset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from broker.brokerages.replayed_columns import ReplayedColumns
from broker.domain.arrays import Floats, IdentityCache, Ints, codes_of, distinct, texts
from broker.domain.decisions import Decision
from broker.domain.grid import OutputEndpoints
from broker.domain.placements import NucleusAssignment, OutputPlace, TaskPlacement, WaitingTask
from broker.domain.task_work import OutputTable
from broker.engine.compiled.loading import load_compiled_task_loop
from broker.engine.compiled.loop_parts import numbered
from broker.engine.shared.distribute import first_fractions
from broker.engine.task.cycle import TaskCycle
from broker.engine.task.decision import DecidedBlock
from broker.engine.task.placing import place_each, room_for
from broker.rules.production_task.storage_tokens import endpoint_for, is_distributed, placed_token, wanted_token
from broker.snapshot.snapshot import Snapshot

#: Separates the draws of this brokerage from those of others with the same seed.
STREAM = 0x7461736B


#: Tasks that are placed together before the first of them is yielded.
BLOCK = 512


@dataclass(frozen=True)
class AssignedTask:
    """One task with its decision.

    Attributes:
        row: position of the task in the work.
        nucleus: position of the nucleus in the snapshot's table, None for none.
        share_work_hs06s: (N,) remaining work of the task's share when the cycle began.
        placed_hs06s: (N,) work that the cycle had placed for the share before this task.
        block: the tasks that were decided together with it.
    """

    row: int
    nucleus: int | None
    share_work_hs06s: Floats
    placed_hs06s: Floats
    block: DecidedBlock

    @cached_property
    def decision(self) -> Decision:
        """The decision about the task, made on first access."""
        return self.block.decision(self.row - self.block.block.first)


def assign_tasks(cycle: TaskCycle, seed: int, before: Floats | None = None) -> Iterator[AssignedTask]:
    """Broker the tasks in order; each meets the work of those before it at their nuclei.

    Args:
        cycle: over the tasks.
        seed: of the draws; each task draws from its own stream, so that omitting one changes no other.
        before: (T, N) work to count as placed before each task, instead of what was placed here.
    """
    for decided in decided_blocks(cycle, seed, before):
        yield from _assigned(decided)


def decided_blocks(cycle: TaskCycle, seed: int, before: Floats | None = None) -> Iterator[DecidedBlock]:
    """Like :func:`assign_tasks`, block by block."""
    tasks, rules = cycle.work.tasks.jeditaskid, cycle.chain.load_weights
    steps = numbered(rules, cycle.chain.tunings(cycle.tuning)) if before is None else None
    loop = None if steps is None else load_compiled_task_loop(len(tasks))
    for start in range(0, len(tasks), BLOCK):
        rows = slice(start, min(start + BLOCK, len(tasks)))
        block = cycle.block(rows, first_fractions(abs(seed), STREAM, np.abs(tasks[rows])))
        if loop is None or steps is None:
            out = place_each(block, rules, cycle.faults, None if before is None else before[rows])
        else:
            out = room_for(block, len(rules))
            out.faults[:] = len(cycle.faults)
            loop.place_all(*steps, block, out)
        yield DecidedBlock(cycle, block, out)


def _assigned(decided: DecidedBlock) -> Iterator[AssignedTask]:
    first, share_work = decided.block.first, decided.cycle.share_work_hs06s
    for at, nucleus in enumerate(decided.out.chosen.tolist()):
        row = first + at
        yield AssignedTask(row, None if nucleus < 0 else nucleus, share_work[row], decided.out.before[at], decided)


def nucleus_rows(placed: Sequence[AssignedTask], cycle: TaskCycle) -> TaskPlacement:
    """Everything to be written for the tasks in ``placed``."""
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
    """The endpoints of the datasets of a task; distributed datasets and those without an endpoint are omitted."""
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
    """The tasks of all blocks of a cycle, which has at least one block."""
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


#: Maximum number of cached tokens while the storages are unchanged; usually few, but tasks may name any.
MOST_TOKENS = 1000


class NucleusOutputs:
    """The output endpoints of the nuclei of a snapshot, and which of them each requested token means."""

    def __init__(self, snapshot: Snapshot) -> None:
        storages = snapshot.storages
        self._places = [
            (places, [str(name) for name in storages.name[places]], list(storages.type[places]))
            for places in local_outputs(snapshot)
        ]
        self._known: dict[str, Ints] = {}

    def own(self, token: str) -> Ints:
        """(N,) the endpoint of each nucleus for a token as :func:`wanted_token` returns it; -1 for none."""
        endpoint_of = self._known.get(token)
        if endpoint_of is None:
            if len(self._known) >= MOST_TOKENS:
                self._known = {}
            at = [endpoint_for(token, names, types) for _, names, types in self._places]
            endpoints = [places[one] if one >= 0 else -1 for one, (places, _, _) in zip(at, self._places, strict=True)]
            endpoint_of = self._known[token] = np.array(endpoints, dtype=np.int64)
        return endpoint_of


_outputs = IdentityCache[NucleusOutputs]()


def output_endpoints(outputs: OutputTable, snapshot: Snapshot) -> OutputEndpoints:
    """The endpoints of the datasets at every nucleus of the snapshot."""
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
    """For each nucleus, its local output endpoints of all scopes, by queue and then by name."""
    relations, unified = snapshot.relations, snapshot.unified
    usable = relations.is_output & relations.is_local & unified.runs_production[relations.unified]
    # relations are sorted by queue, then endpoint, and both of these by name
    queue, storage = relations.unified[usable], relations.storage[usable]
    site = codes_of(unified.atlas_site, list(snapshot.nuclei.name))[queue]
    return [
        np.array(list(dict.fromkeys(storage[site == nucleus].tolist())), dtype=np.int64)
        for nucleus in range(len(snapshot.nuclei))
    ]
