"""The reference for the decision benchmarks: ten rules in plain Python, one pair of chunk and queue at a time.

This is what a broker without vectors does: for each chunk a loop over the queues, for each queue the rules until one
rejects it, and the reason is kept. The code is meant neither to be fast nor to decide like the broker. It must not be
changed, so that figures of other days and machines can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from types import SimpleNamespace
from typing import Any

from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable

#: How many chunks are judged for one figure: enough for a tenth of a second.
CHUNKS = 100

Row = SimpleNamespace
RULES: tuple[tuple[str, Callable[[Row, Row], bool]], ...] = (
    ("status", lambda chunk, queue: queue.status in ("online", "brokeroff")),
    ("type", lambda chunk, queue: queue.type != "analysis"),
    ("core_count", lambda chunk, queue: (chunk.corecount or 1) <= (queue.cores or 1)),
    ("maxrss", lambda chunk, queue: not chunk.ramcount > queue.maxrss_mb > 0),
    ("minrss", lambda chunk, queue: not 0 < chunk.ramcount < queue.minrss_mb),
    ("maxtime", lambda chunk, queue: not chunk.walltime > queue.maxtime_s > 0),
    ("mintime", lambda chunk, queue: not 0 < chunk.walltime < queue.mintime_s),
    ("scratch", lambda chunk, queue: not (chunk.workdiskcount or 0) * 1024 > queue.maxwdir_mb > 0),
    ("io", lambda chunk, queue: not chunk.iointensity > queue.max_io_intensity > 0),
    ("fairshare", lambda chunk, queue: f"gshare={chunk.gshare}:0%" not in (queue.fairsharepolicy or "")),
)


def reference_s_per_pair(chunks: WorkTable, queues: QueueTable) -> float:
    """Return the CPU seconds of the ten rules per pair of chunk and queue."""
    chunk_rows, queue_rows = _rows(chunks)[:CHUNKS], _rows(queues)
    start_s = process_time()
    for chunk in chunk_rows:
        _judge(chunk, queue_rows)
    return (process_time() - start_s) / max(1, len(chunk_rows) * len(queue_rows))


def _judge(chunk: Row, queues: list[Row]) -> tuple[list[str], dict[str, str]]:
    """Return the names of the feasible queues, and the rule that rejected each of the others."""
    feasible: list[str] = []
    rejected: dict[str, str] = {}
    for queue in queues:
        for name, passes in RULES:
            if not passes(chunk, queue):
                rejected[queue.name] = name
                break
        else:
            feasible.append(queue.name)
    return feasible, rejected


def _rows(table: Any) -> list[Row]:
    columns = {name: column.tolist() for name, column in vars(table).items() if hasattr(column, "tolist")}
    return [Row(**dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]
