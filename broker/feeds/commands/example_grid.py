"""``broker import example``: documents of a synthetic grid as files, to try an import with."""

from __future__ import annotations

import json as json_format
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from broker.cli.output import remark
from broker.errors import BrokerError
from broker.simulation.model.demo.grid_documents import (
    GridSize,
    cric_documents,
    network_metrics,
    rse_usage,
    worker_reports,
)


def example(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Made if it is not there.", show_default=False)],
    queues: Annotated[int, typer.Option("--queues", min=1, max=10_000, help="How many queues the grid has.")] = 200,
) -> None:
    """Write what CRIC, Rucio, network metrics and Harvester would tell now of a synthetic grid."""
    now, size = datetime.now(UTC), GridSize(queues)
    documents: dict[str, Any] = cric_documents(size, now)
    documents |= {"network_metrics": network_metrics(size, now), "rse_usage": rse_usage(size, now)}
    documents |= {"worker_reports": worker_reports(size)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in documents.items():
            (folder / f"{name}.json").write_text(json_format.dumps(content), encoding="utf-8")
    except OSError as error:
        raise BrokerError(f"cannot write: {error.strerror}", str(folder), "name another folder") from error
    remark(f"{len(documents)} documents of {queues} queues in {folder}")
