"""The source ``gpus``: GPUs reported by pilots, from the summary of worker nodes."""

from __future__ import annotations

from typing import Any

from broker.domain.queues import GpuSummary
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import MAX_NAME_CHARACTERS, RawSource
from broker.snapshot.source import SourceLimit, TableRead
from broker.snapshot.sources.queues import QUEUES

Gpus = tuple[tuple[GpuSummary, ...], ...]
_GPU_COLUMNS = (
    ("vendor", "vendor"),
    ("model", "model"),
    ("generation", "architecture"),
    ("cuda", "framework_version"),
    ("driver", "driver_version"),
)


class SeenGpus(GridSource[Gpus]):
    """GPUs of worker nodes; refreshed every hour."""

    name = "gpus"
    reads = (
        TableRead(
            "mv_worker_node_gpu_summary",
            (
                "panda_queue",
                "vendor",
                "model",
                "vram",
                "architecture",
                "framework_version",
                "driver_version",
                "gpus_per_host",
                "host_count",
            ),
            optional=("architecture", "driver_version"),
            table_optional=True,
        ),
    )
    limit = SourceLimit(max_age_s=86_400.0)
    aged_by = "mv_worker_node_gpu_summary"

    def build(self, raw: RawSource, draft: Draft) -> Gpus:
        """Build the GPU summaries of each unified queue."""
        return build_gpus(raw, draft.of(QUEUES).rows)


GPUS = SeenGpus()


def build_gpus(source: RawSource, unified: dict[str, int]) -> tuple[tuple[GpuSummary, ...], ...]:
    """GPU summaries reported by pilots, by unified queue; empty text and a memory of 0 mean unknown."""
    groups: list[list[GpuSummary]] = [[] for _ in unified]
    for row in source.rows("mv_worker_node_gpu_summary").records():
        queue = unified.get(row["panda_queue"])
        if queue is not None:
            words = {name: _text(row.get(column)) or None for name, column in _GPU_COLUMNS}
            vram = str(row["vram"]) if row.get("vram") else None
            groups[queue].append(GpuSummary(vram=vram, **words))
    return tuple(tuple(group) for group in groups)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and len(value) <= MAX_NAME_CHARACTERS else None
