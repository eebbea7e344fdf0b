"""The brokerage's decision on one of JEDI's chunks or on a list of tasks: what it reads, and its answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

import numpy as np
import sqlalchemy as sa

from agents.brokerage.job_tables import DONE_JOB_HOURS
from broker.brokerages.base import Rules
from broker.brokerages.job.brokerage import JobsCycle
from broker.brokerages.job.chunk_jobs import cut_limits
from broker.brokerages.job.job_rows import platforms_of
from broker.brokerages.production_task.assign import AssignedTask
from broker.brokerages.registry import brokerage
from broker.codec.cut_codec import CutEncoder
from broker.codec.work_codec import chunk_of, encode_work
from broker.domain.arrays import AnyArray, Bools, Ints, codes_of
from broker.domain.counted_load import CountedLoad
from broker.domain.work import Work
from broker.engine.job.chunk_result import ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.engine.job.decision import decision_of
from broker.gdpconfig import Tuning
from broker.rules.production_job.cuts.cap import SHIPPED_CAP
from broker.store.reads.analysis_requests import load_analysis_work, with_requested_places
from broker.store.reads.chunk_loading import assemble_chunks
from broker.store.reads.task_alternatives import read as read_ways
from broker.store.reads.task_loading import load_task_work
from broker.store.reads.task_reads import TaskSelection
from broker.work.assemble import CycleWork
from gridbroker_jedi.answer import Answer, CandidateAnswer
from gridbroker_jedi.chunk import ChunkTables
from gridbroker_jedi.grid import GridView

PRODUCTION, ANALYSIS, GENERIC, TASKS = "production_job", "analysis_job", "generic_job", "production_task"
#: Status of files that JEDI has just claimed for the chunk.
CLAIMED = ("ready", "picked")
DISK, TAPE = 0, 1


@dataclass(frozen=True)
class Decided:
    """An answer, and the chunk in a form in which it can be decided again."""

    answer: Answer
    work: bytes


def decide_chunk(
    connection: sa.Connection,
    view: GridView,
    name: str,
    rules: Mapping[str, Rules],
    tables: ChunkTables,
    placed: Mapping[str, int],
    now: datetime,
) -> Decided:
    """The decision on one chunk.

    Args:
        connection: read-only; the replica catalogue and the task's parameters are read through it.
        view: of the grid.
        name: of the brokerage.
        rules: of the profile, by brokerage.
        tables: the chunk.
        placed: jobs that JEDI has placed in this cycle, by unified queue.
        now: the instant of the decision (aware).
    """
    analysis = name == ANALYSIS
    tuning = view.published.tuning(str(tables.tasks.texts["vo"][0]))
    read = assemble_chunks(
        connection,
        view.catalogue,
        tables.tasks,
        tables.datasets,
        tables.chunks,
        tables.inputs,
        whole_constituents=analysis,
        statuses=CLAIMED,
    )
    if analysis:
        read = _with_requests(connection, view, read, tuning, now)
    if name == GENERIC:
        read = with_requested_places(connection, view.catalogue, read)
    read = dataclasses.replace(read, ways=read_ways(connection, tables.tasks.jeditaskid.tolist()))
    cycle = cast(JobsCycle, brokerage(name).cycle(view.reading.snapshot, read, tuning, rules[name]))
    engine, work = cycle.engine, cycle.work
    # PanDA's generic broker ignores what JEDI has just placed
    load = CountedLoad(of_share={} if name == GENERIC else placed)
    engine.set_load(0, load)
    result = next(engine.results())
    decision = decision_of(engine, result)
    if name == GENERIC:
        answer = Answer(decision, _plain_candidates(engine, work, result), cloud=work.work.chunks.cloud[0])
    else:
        # PanDA's production broker lets JEDI move what is not at a queue, and marks no dataset
        distributed = _distributed(work.work) if analysis else frozenset[int]()
        answer = Answer(decision, _candidates(engine, work, result, placed), distributed)
    return Decided(answer, encode_work(chunk_of(work.work, 0), load, CutEncoder(work).encode(0)))


def hours_of_ended_jobs(view: GridView, name: str, tables: ChunkTables) -> float | None:
    """For how many hours ended jobs of a chunk's task count; None if the brokerage does not read them."""
    if name != ANALYSIS:
        return None
    tuning = view.published.tuning(str(tables.tasks.texts["vo"][0]))
    return float(tuning.only((DONE_JOB_HOURS,)).number(DONE_JOB_HOURS))


def _with_requests(
    connection: sa.Connection, view: GridView, work: CycleWork, tuning: Tuning, now: datetime
) -> CycleWork:
    """The work with what only the analysis brokerage reads about tasks."""
    hours = tuning.only((DONE_JOB_HOURS,)).number(DONE_JOB_HOURS)
    request, dropped = load_analysis_work(connection, view.catalogue, work.work.chunks, now, hours)
    whole = dataclasses.replace(work.work, dropped_rows=(*work.work.dropped_rows, *dropped), analysis_request=request)
    return dataclasses.replace(work, work=whole)


def _distributed(work: Work) -> frozenset[int]:
    """The datasets that no rule keeps together and no place has completely: JEDI takes their files where they are."""
    inputs, replicas = work.inputs, work.replicas
    placed, whole = np.zeros(len(inputs), dtype=np.bool_), np.zeros(len(inputs), dtype=np.bool_)
    placed[replicas.input] = True
    whole[replicas.input[replicas.complete]] = True
    chosen = inputs.distributed & ~inputs.is_pseudo & placed & ~whole
    return frozenset(inputs.datasetid[chosen].tolist())


def _candidates(
    cycle: JobCycle, work: CycleWork, result: ChunkResult, placed: Mapping[str, int]
) -> tuple[CandidateAnswer, ...]:
    ranking, chosen = result.ranking, result.chosen
    if ranking is None or not len(chosen):
        return ()
    queues, chunks = cycle.snapshot.queues, work.work.chunks
    load = cycle.load(result.block, 0, chosen)
    weights = np.where(ranking.bootstrap[ranking.chosen], 0.0, ranking.weight[ranking.chosen])
    unlimited = bool(np.asarray(load.urgent).all())
    waiting, limit, running = (
        np.broadcast_to(column, len(chosen)) for column in (*SHIPPED_CAP.room(load), load.running)
    )
    assigned = np.broadcast_to(load.assigned, len(chosen))
    scratch = cut_limits(chunks, 0, queues, chosen)
    names, which = platforms_of(chunks, cycle.snapshot, np.stack([np.zeros(len(chosen), dtype=np.int64), chosen]))
    files = _files(cycle, work, chosen)
    wan = bool(chunks.allow_input_wan[0])
    candidates = []
    for position, queue in enumerate(chosen.tolist()):
        unified = str(queues.unified_name[queue])
        # JEDI counts what it has placed itself on top of this
        queued = int(waiting[position]) - int(placed.get(unified, 0))
        candidates.append(
            CandidateAnswer(
                name=str(queues.name[queue]),
                unified=unified,
                weight=float(weights[position]),
                queued=max(queued, 0),
                assigned=int(assigned[position]),
                running=int(running[position]),
                cap=None if unlimited else int(limit[position]),
                maxwdir_mb=scratch[position].scratch_mb or None,
                platform=names[which[position]] if which[position] >= 0 else None,
                disk=files[DISK][position],
                tape=files[TAPE][position],
                remote=wan and bool(queues.direct_access_wan[queue]),
                jumbo=bool(queues.use_jumbo[queue]),
            )
        )
    return tuple(candidates)


def _plain_candidates(cycle: JobCycle, work: CycleWork, result: ChunkResult) -> tuple[CandidateAnswer, ...]:
    """Candidates as PanDA's generic broker gives them: name, weight, files on disk; weights do not fall with jobs."""
    ranking, chosen = result.ranking, result.chosen
    if ranking is None or not len(chosen):
        return ()
    queues, (on_disk, _) = cycle.snapshot.queues, _files(cycle, work, chosen)
    own = (queues.name == queues.unified_name)[chosen].tolist()
    rows = zip(chosen.tolist(), ranking.weight[ranking.chosen].tolist(), on_disk, own, strict=True)
    no_files: frozenset[int] = frozenset()
    return tuple(
        CandidateAnswer(
            str(queues.name[queue]),
            str(queues.unified_name[queue]),
            weight,
            None,
            None,
            None,
            disk=disk if is_own else no_files,
        )
        for queue, weight, disk, is_own in rows
    )


def _files(cycle: JobCycle, work: CycleWork, chosen: Ints) -> tuple[list[frozenset[int]], list[frozenset[int]]]:
    """For each candidate the ids of the chunk's files on disk, and on tape, of endpoints that the queue reads."""
    replicas, relations = work.work.replicas, cycle.snapshot.relations
    storage = codes_of(replicas.rse, list(cycle.snapshot.storages.name))
    readable = cycle.reading()
    files: tuple[list[set[int]], list[set[int]]] = ([set() for _ in chosen], [set() for _ in chosen])
    queues: AnyArray = cycle.snapshot.queues.unified[chosen]
    for row in range(len(replicas)):
        if storage[row] < 0 or not _counts(work, row):
            continue
        reading = np.isin(queues, relations.unified[readable & (relations.storage == storage[row])])
        ids = work.inputs.files_of(int(replicas.input[row])).fileid
        held: Bools | None = work.held[row]
        present = set((ids if held is None else ids[held]).tolist())
        for position in np.flatnonzero(reading).tolist():
            files[TAPE if replicas.is_tape[row] else DISK][position] |= present
    return [frozenset(ids) for ids in files[DISK]], [frozenset(ids) for ids in files[TAPE]]


def _counts(work: CycleWork, row: int) -> bool:
    """Whether a replica counts: of secondary datasets only whole ones do."""
    replicas = work.work.replicas
    return bool(replicas.holds_all[row] or work.work.inputs.is_master[replicas.input[row]])


def decide_tasks(
    connection: sa.Connection,
    view: GridView,
    rules: Mapping[str, Rules],
    vo: str,
    tasks: Sequence[int],
    now: datetime,
    seed: int,
) -> list[tuple[AssignedTask, str | None]]:
    """The decision on each of the tasks, in order of priority, with the nucleus that was drawn.

    Args:
        connection: read-only.
        view: of the grid.
        rules: of the profile, by brokerage.
        vo: of the tasks.
        tasks: ids; JEDI has claimed them.
        now: the instant of the decision (aware).
        seed: of the draws.
    """
    selection = TaskSelection(vo=vo, now=now, task_ids=tuple(tasks), due_only=False)
    work = load_task_work(connection, view.catalogue, selection)
    snapshot = view.reading.snapshot
    cycle = brokerage(TASKS).cycle(snapshot, work, view.published.tuning(vo), rules[TASKS])
    names = snapshot.nuclei.name
    return [(one, None if one.nucleus is None else str(names[one.nucleus])) for one in cycle.assign(seed)]
