"""Random cycles of a job brokerage with files to split: grids, chunks of several shares, rules that reject."""

from __future__ import annotations

from typing import Any

import numpy as np

from broker.domain.work import Work
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.chain import QueueChain
from broker.gdpconfig import Tuning
from broker.rules.contract import LoadCut
from broker.rules.production_job.weights.running_queued import RunningQueued
from broker.snapshot.snapshot import Snapshot
from broker.work.assemble import CycleWork
from broker.work.chunks import ChunkTable, InputFiles
from broker.work.input_files import DatasetUse, FileTable, joined
from broker.work.split_settings import SplitSettings
from tests.engine.small_work import Dataset, replica, work_of
from tests.engine.toy_rules import Factor, Toy
from tests.snapshot.raw_grid import TYPES, at_site, build, endpoint, jobs, queue, uses
from tests.work.files_for_tests import file_table

SHARES = ("Simulation", "Reprocessing", "Group")
Random = np.random.Generator


def one_of(random: Random, *values: Any) -> Any:
    return values[int(random.integers(len(values)))]


def random_grid(random: Random, queues: int, **fields: Any) -> Snapshot:
    """Make queues of one site with limits on jobs, and existing jobs of several shares.

    ``fields`` gives a function of the random generator for each additional field of a queue.
    """
    names = [f"Q{number:02d}" for number in range(queues)]
    queue_rows = [
        queue(
            name,
            corecount=one_of(random, 1, 8),
            corepower=one_of(random, 0, 10.5),
            maxwdir=one_of(random, 0, 2_500, 20_000),
            maxtime=one_of(random, 0, 4_000, 90_000),
            mintime=one_of(random, 0, 0, 700),
            maxinputsize=one_of(random, -1, 1_000),
            direct_access_lan=one_of(random, True, False),
            catchall=one_of(random, None, None, "jobChunkSize=3", "jobChunkSize=60"),
            **{name: make(random) for name, make in fields.items()},
        )
        for name in names
    ]
    counts = [
        jobs(name, status, int(random.integers(1, 40)), gshare=share)
        for name in names
        for share in SHARES
        for status in ("running", "activated", "assigned", "starting", "defined")
        if random.random() < 0.2
    ]
    return build(
        schedconfig_json=queue_rows,
        panda_site=[at_site(name, "NUC") for name in names],
        site=[{"site_name": "NUC", "role": "nucleus"}],
        resource_types=[dict(row) for row in TYPES],
        ddm_endpoint=[endpoint(name, "NUC") for name in "AB"],
        # some queues read from one endpoint, some from both
        panda_ddm_relation=[*(uses(name, "A") for name in names[::2]), *(uses(name, "B") for name in names[1::3])],
        job_counts=counts,
    )


def _use(random: Random) -> DatasetUse:
    return DatasetUse(
        nosplit=one_of(random, False, False, False, True),
        repeat=one_of(random, False, True),
        reusable=one_of(random, False, True),
        files_per_job=one_of(random, None, None, 1, 4),
        event_ratio=one_of(random, None, None, 0.3, 2.0),
        ratio=one_of(random, 1.0, 0.4, 2.5),
    )


def _files(random: Random, count: int) -> FileTable:
    rows = [
        {
            "lfn": int(random.integers(3)) if random.random() < 0.05 else number + 10,
            "size": one_of(random, None, 1, 3_000_000, 900_000_000),
            "nevents": one_of(random, None, 50, 1000),
            "boundary": one_of(random, None, 1, 2**63 - 1),
            "lumi": number // 4,
        }
        for number in range(count)
    ]
    ranged = random.random() < 0.3
    return file_table([row | ({"nevents": 100, "start": 10, "end": 59} if ranged else {}) for row in rows])


def random_settings(random: Random) -> SplitSettings:
    return SplitSettings(
        merging=one_of(random, False, False, True),
        scout=one_of(random, False, False, True),
        files_per_job=one_of(random, None, 1, 3),
        events_per_job=one_of(random, None, None, 100, 1100),
        max_files=one_of(random, 4, 200),
        max_events=one_of(random, None, 250),
        gb_per_job=one_of(random, None, None, 2),
        max_walltime_s=one_of(random, 0.0, 4000.0),
        by_lumi=one_of(random, False, False, True),
        boundary=one_of(random, 0, 0, 1, 3),
        dynamic=one_of(random, False, True),
    )


def random_work(random: Random, count: int, settings: list[SplitSettings]) -> Work:
    def each(*values: Any) -> list[Any]:
        return [one_of(random, *values) for _ in range(count)]

    copies = [
        Dataset(
            [replica("A", files=float(one_of(random, 0, 10))), replica("B")], distributed=one_of(random, False, True)
        )
        for _ in range(count)
    ]
    columns = {
        "jeditaskid": [7_000 + at + one_of(random, 0, 0, 0, 2**33) for at in range(count)],
        "datasetid": list(range(90, 90 + count)),
        "ramcount": each(float("nan"), 0.0, 2500.7),
        "gshare": each(*SHARES),
        "nucleus": each("NUC", "NUC", "NUC", "NUC", "ELSEWHERE"),
        "currentpriority": each(100.0, 450.0, 990.0),
        "processingtype": each("simul", "simul", "urgent"),
        "merging": [split.merging for split in settings],
        "scout": [split.scout for split in settings],
        "cputime": each(float("nan"), 0.0, 31.7, 420.0),
        "cputimeunit": each("HS06sPerEvent", "mHS06sPerEvent", None),
        "walltime": each(float("nan"), 0.0, 3.3),
        "cpuefficiency": each(0.0, 90.0),
        "outdiskcount": each(0.0, 70.3, 9_000.0),
        "outdiskunit": each("kB", "kBPerEvent"),
        "workdiskcount": each(0.0, 900.0),
        "use_local_io": each(False, True),
        "allow_input_lan": each(0, 1),
        "corecount": each(1.0, 8.0),
        "eventservice": each(0.0, 1.0),
    }
    return work_of(*([copy] for copy in copies), chunks=columns)


def with_files(random: Random, work: Work, settings: list[SplitSettings]) -> CycleWork:
    parts: list[list[tuple[FileTable, DatasetUse]]] = [
        [(_files(random, int(random.integers(1, 120))), DatasetUse())] for _ in settings
    ]
    for inputs_of_chunk in parts:
        while random.random() < 0.25:
            inputs_of_chunk.append((_files(random, int(random.integers(0, 30))), _use(random)))
    sizes = [len(files) for inputs_of_chunk in parts for files, _ in inputs_of_chunk]
    inputs = InputFiles(
        np.repeat(np.arange(len(parts)), [len(inputs_of_chunk) for inputs_of_chunk in parts]),
        np.arange(len(sizes)),
        np.array([at == 0 for inputs_of_chunk in parts for at in range(len(inputs_of_chunk))], dtype=np.bool_),
        tuple(use for inputs_of_chunk in parts for _, use in inputs_of_chunk),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        joined([files for inputs_of_chunk in parts for files, _ in inputs_of_chunk]),
    )
    place = np.arange(len(parts))
    chunks = work.chunks
    work.chunks.n_files[:] = [len(inputs_of_chunk[0][0]) for inputs_of_chunk in parts]
    listed = tuple(
        random.random(len(parts[int(work.inputs.chunk[chunk_input])][0][0])) < 0.5 if random.random() < 0.2 else None
        for chunk_input in work.replicas.input.tolist()
    )
    table = ChunkTable(place, place, chunks.ramcount, chunks.merging, chunks.scout, chunks.jumbo)
    return CycleWork(work, table, inputs, tuple(settings), listed)


def random_cycle(
    seed: int, count: int, queues: int, cuts: tuple[LoadCut, ...], weight_constants: tuple[float, ...] = ()
) -> tuple[JobCycle, CycleWork]:
    """Make a cycle of ``count`` chunks and ``queues`` queues, and its work. Equal arguments give equal results.

    ``weight_constants`` replace the constants of the moving weight.
    """
    random = np.random.default_rng(seed)
    snapshot, settings = random_grid(random, queues), [random_settings(random) for _ in range(count)]
    work = with_files(random, random_work(random, count, settings), settings)
    masks = random.random((3, count, queues)) < np.array([0.9, 0.8, 0.9])[:, None, None]
    steps = random.choice([0.0, 0.5, 1.0, 1.0, 3.7], size=(2, count, queues))

    def by_chunk(table: Any) -> Any:
        return lambda chunks, candidates, facts: table[chunks.datasetid[:, 0] - 90]

    filters = (
        Toy("gone", by_chunk(masks[0])),
        Toy("for_now", by_chunk(masks[1]), kind="temporary"),
        Toy("not_known", by_chunk(masks[2]), unknown=by_chunk(~masks[1])),
    )
    weights = (Factor("one", by_chunk(steps[0])), Factor("other", by_chunk(steps[1] + 0.1)))
    moving = RunningQueued()
    if weight_constants:
        moving.queued_offset, moving.largest_many_assigned = weight_constants
    chain = QueueChain("random", filters, weights, (moving,), cuts)
    values = {f"NQUEUELIMITSITE_{share}": one_of(random, 0, 30, 2000) for share in SHARES}
    values["MIN_WEIGHT_managed"] = one_of(random, 0, 0.4)
    return JobCycle(snapshot, work.work, Tuning.defaults().with_values(values), chain), work
