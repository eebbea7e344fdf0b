"""Queue offers for the cases of the contract, read by the same reader as in production."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from broker.domain.queues import ContainerSources, GpuSummary, QueueOffer, QueueSoftware
from broker.snapshot.sources.software import read_software

PLATFORM = "x86_64-centos7-gcc8-opt"
HERE = Path(__file__).parent


def software_of(**document: Any) -> QueueSoftware:
    """Return the software of a queue that publishes the document."""
    software, faults = read_software(json.dumps(document))
    assert not faults
    return software


def gpu(vendor: str | None, model: str | None, vram: int | None, *rest: str | None) -> GpuSummary:
    """Return one GPU combination as pilots report it."""
    return GpuSummary(vendor, model, None if not vram else str(vram), *rest)


def offer_of(case: dict[str, Any], gpus: dict[str, Any]) -> QueueOffer:
    """Return the queue of a case of ``hardware.json``; its software fits unless the case says otherwise."""
    lists = {"containers": ["any"], "cvmfs": ["any"], "cmtconfigs": [PLATFORM, "aarch64-centos7-gcc8-opt"], "tags": []}
    document = {key: case.get(key, value) for key, value in lists.items()}
    document["architectures"] = [{"type": kind, **case[kind]} for kind in ("cpu", "gpu") if kind in case]
    releases = tuple(case.get("releases", ["AUTO"]))
    return QueueOffer(
        "QUEUE", releases, software_of(**document), tuple(gpu(*gpus[name]) for name in case.get("seen", ()))
    )


def no_sources() -> ContainerSources:
    """Return container sources without any entry."""
    return ContainerSources()
