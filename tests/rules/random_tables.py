"""Random tables for testing properties of every rule, with values near the limits of the rules, and NULL.

The test of a rule may add values: ``POOLS`` of columns, and a ``TUNING`` under which the rule both keeps and rejects.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import AcceptedCores, PlacementConstraints, RebrokeredFrom, WorkTable
from tests.rules.builders import GB, NOW_S, OF_CHUNK, OF_QUEUE, facts_of, make_queues, make_tasks

N = None
POOLS: dict[str, list[Any]] = {
    "currentpriority": [N, 100, 799, 800, 899, 900, 999, 1000],
    "corecount": [N, 0, 1, 2, 8],
    "mergecorecount": [N, 0, 1, 8],
    "processingtype": [N, "simul", "pile", "validation", "urgent", "other"],
    "workinggroup": [N, "AP_Higgs", "Top"],
    "gshare": [N, "Simulation", "test", "validation", "Express"],
    "prodsourcelabel": [N, "managed", "ptest"],
    "ramcount": [N, 0, 1000, 2000, 4000],
    "task_ramcount": [N, 0, 2000],
    "mergeramcount": [N, 0, 3000],
    "ramunit": [N, "MB", "MBPerCore", "MBPerCoreFixed"],
    "baseramcount": [N, 0, 500],
    "walltime": [N, 0, 400],
    "cputime": [N, 0, 100, 5000],
    "cputimeunit": [N, "HS06sPerEvent", "mHS06sPerEvent", "kSI2kseconds"],
    "cpuefficiency": [N, 0, 90, 100],
    "basewalltime": [N, 0, 600, 100_000],
    "outdiskcount": [N, -1, 0, 200, 900],
    "outdiskunit": [N, "kB", "kBPerEvent", "MB", "GB"],
    "workdiskcount": [N, 0, 500, 5000],
    "workdiskunit": [N, "kB", "MB", "GB"],
    "iointensity": [N, 0, 200, 201, 501],
    "diskio": [N, 0, 100, 900],
    "eventservice": [N, 0, 1, 2],
    "t1weight": [-2, -1, 0, 3],
    "full_chain": [0, 1, 2, 3],
    "ip_connectivity": [0, 1, 2, 9],
    "ip_stack": [0, 4, 6, 9],
    "allow_input_lan": [0, 1, 2],
    "max_core_count": [0, 1, 4, 8],
    "dynamic_num_events": [0, 0, 500],
    "max_events_per_job": [0, 4000],
    "es_consumers": [0, 2],
    "es_attempts": [0, 1],
    "atom_events": [1, 1000],
    "atom_mb": [0, 1, 4000],
    "atom_bytes": [N, 0, GB],
    "longest_run_events": [N, 500, 10_000],
    "ready_events": [N, 0, 1000],
    "accepted_cores": [N, *(AcceptedCores.of_stored(one) for one in ("1", "8", "2-16", "4-!8"))],
    "rebrokered_from": [
        N,
        RebrokeredFrom((("QUEUE_A", NOW_S - 6 * 3600),)),
        RebrokeredFrom((("QUEUE_A", NOW_S - 6 * 3600 + 1), ("QUEUE_B", NOW_S))),
    ],
    "placement_constraints": [
        N,
        PlacementConstraints("sp1-a"),
        PlacementConstraints(None, ("A",)),
        PlacementConstraints("sp1-a", ("A",), ("B",)),
    ],
    "queue_unified_name": ["QUEUE_A", "QUEUE_B", "QUEUE_C_HOSPITAL"],
    "status": [N, "online", "offline", "test"],
    "resource_type": [N, "SCORE", "MCORE"],
    "cores": [N, 0, 1, 8],
    "unified_cores": [N, 0, 1, 8],
    "corepower": [N, 0, 10, 15.5],
    "maxrss_mb": [N, 0, 1800, 16_000],
    "minrss_mb": [N, 0, 1801, 16_001],
    "maxtime_s": [N, 0, 3600, 86_399, 86_400, 400_000],
    "shutdown_s": [N, N, NOW_S - 1, NOW_S + 3600, NOW_S + 86_400],
    "mintime_s": [N, 0, 3600, 100_000],
    "maxwdir_mb": [N, 0, 900, 2000, 50_000],
    "maxinputsize_mb": [N, -1, 0, 60_000],
    "pledgedcpu": [N, -1, 0, 100],
    "transferringlimit": [N, 0, 100],
    "maxdiskio_kbps": [N, 0, 500],
    "fairsharepolicy": [
        N,
        "",
        "type=evgen:100%,type=simul:100%,type=any:0%",
        "priority>800:0,type=(:0%",
        "group=AP_*:0%,gshare=Exp*:0",
    ],
    "connectivity": [N, "full", "http", "none"],
    "queue_ip_stack": [N, "IPv4", "IPv6"],
    "jobseed": [N, "std", "es", "eshigh", "all"],
    "bare_nucleus": [0, 1, 2],
    "min_events_for_jumbo": [N, 0, 500],
    "max_io_intensity": [N, 100, 300],
    "nucleus_bare": [0, 1, 2],
    "nucleus_queued": [N, 0, 10_000, 10_001],
    "closeness": [N, -1, 0, 11],
    "link_queued": [N, 0, 150, 151],
    "throughput_mb_per_s": [N, 0.5, 1, 10.5, 300],
    "all_activated": [0, 1, 10],
    "all_starting": [0, 3],
    "starting_cores": [0, 1],
    "jobs_closed": [N, 0, 1],
    "space_usable_gb": [N, 0, 200, 200.5],
    "all_running": [0, 50, 1000],
    "transferring": [0, 100, 101, 2000, 2001],
    "running_cores": [0, 100, 101],
    "n_pilots": [0, 0, 5],
    "laststart_s": [N, NOW_S - 7201, NOW_S - 7200, NOW_S],
    "average_diskio_kbps": [0, 500, 501],
    "space_free_gb": [N, 0, 200, 200.5],
    "total_bytes": [0, 5 * GB, 50 * GB],
    "total_files": [1, 99, 300],
    "available_bytes": [0, 5 * GB, 50 * GB],
    "available_files": [0, 99, 300],
    "available_tape_bytes": [0, 50 * GB],
    "available_tape_files": [0, 300],
}
POOLS |= {
    "unified": [0, 1, 2, 3, 4],
    "transhome": [N, "Athena-24.0.41", "AnalysisTransforms-Athena_24.0.41.1"],
    "transuses": [N, "Atlas-21.0.15"],
    "gb_per_job": [0, 2],
    "cloud": [N, "WORLD", "DE"],
    "cloud_of_queue": [N, "DE", "UK"],
    "output_usable_gb": [N, 200, 200.5],
    "input_usable_gb": [N, 200, 200.5],
    "queued_of_type": [0, 40, 41, 100],
    "running_of_type": [0, 20, 50],
    "share_queued": [0, 100],
    "share_running": [0, 50],
    "jobs_finished": [0, 2, 3],
    "jobs_bad": [0, 4, 5, 6],
    "to_running_rate": [0, 12.5],
    "user_queued": [0, 5, 51, 101],
    "user_running": [0, 30],
    "users": [0, 1, 2, 9],
    "users_running": [0, 40, 1000],
    "container_name": [N, N, "docker://image"],
    "architecture": [
        N,
        "x86_64-slc6-gcc8-opt",
        "x86_64-.*-clang[0-9]+-opt",
        "aarch64-el9-gcc13-opt",
        "#x86_64",
        "#&*",
        "#&nvidia:vram>=40960",
        "#&nvidia:cuda<12.0",
        "#&amd",
        "{",
    ],
}
COUNT_POOL = [0, 1, 10, 100]


def literals_in_tests(name: str, *folders: str) -> Iterator[tuple[str, Any]]:
    """Yield the entries of the dictionaries ``name`` in rule tests below these folders, which must be literals."""
    for path in sorted(path for folder in folders for path in (Path(__file__).parent / folder).rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if f"\n{name} = " in text:
            for node in ast.parse(text).body:
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                    yield from ast.literal_eval(node.value).items()


for _column_name, _values in literals_in_tests("POOLS", "production_job", "analysis_job", "generic_job", "shared"):
    POOLS[_column_name] = [*POOLS.get(_column_name, ()), *_values]


@functools.cache
def pools_of(table: type, prefix: str = "") -> dict[str, list[Any]]:
    """Return the columns of a table to draw, in the order of its fields, with their pools."""
    pools = {}
    for field in dataclasses.fields(table):
        pool = POOLS.get(prefix + field.name) or POOLS.get(field.name)
        if str(field.type) == "Bools":
            pool = [False, True]
        if pool is None and field.name in ("defined", "assigned", "activated", "starting", "running"):
            pool = COUNT_POOL
        if pool is not None:
            pools[field.name] = pool
    return pools


def random_tables(
    seed: int, chunks: int, queues: int, kind_of_facts: type[JobFacts] = JobFacts
) -> tuple[WorkTable, QueueTable, JobFacts]:
    """Draw the tables of a seed. Each chunk has its own nucleus, because it has its own link facts."""
    rng = np.random.default_rng(seed)

    def draw(pools: dict[str, list[Any]], size_of: Callable[[str], int]) -> dict[str, Any]:
        return {
            name: [pool[index] for index in rng.integers(0, len(pool), size_of(name)).tolist()]
            for name, pool in pools.items()
        }

    tasks = draw(pools_of(WorkTable), lambda _: chunks)
    tasks["nucleus"] = [f"NUCLEUS_{index}" for index in range(chunks)]
    sizes = {name: chunks for name in OF_CHUNK} | {name: queues for name in OF_QUEUE}
    facts = draw(pools_of(kind_of_facts), lambda name: sizes.get(name, chunks * queues))
    return (
        make_tasks(chunks, **tasks),
        make_queues(queues, **draw(pools_of(QueueTable, "queue_"), lambda _: queues)),
        facts_of(kind_of_facts, chunks, queues, **facts),
    )


def one_by_one(
    tasks: Any, candidates: Any, facts: Any, chunks: int, queues: int
) -> Iterator[tuple[int, int, tuple[Any, Any, Any]]]:
    """Yield row, column and single-pair tables of each chunk and candidate, or each task and nucleus."""
    columns = [_sliced(candidates, np.s_[:, column : column + 1]) for column in range(queues)]
    for row in range(chunks):
        task = _sliced(tasks, np.s_[row : row + 1, :])
        for column, candidate in enumerate(columns):
            yield row, column, (task, candidate, facts.block(np.array([row]), np.array([column])))


def reordered(candidates: Any, facts: Any, chunks: int, order: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Return the candidates and facts in another order."""
    return _sliced(candidates, np.s_[:, order]), facts.block(np.arange(chunks), order)


def _sliced(table: Any, index: Any) -> Any:
    changes = {
        field.name: getattr(table, field.name)[index]
        for field in dataclasses.fields(table)
        if isinstance(getattr(table, field.name), np.ndarray)
    }
    return dataclasses.replace(table, **changes)
