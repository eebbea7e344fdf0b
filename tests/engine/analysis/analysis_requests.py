"""Requests of analysis tasks and a small grid of analysis queues, for tests of the engine."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from broker.domain.analysis import AnalysisGrid, AnalysisWork
from broker.snapshot.snapshot import Snapshot
from tests.snapshot.raw_grid import TYPES, build, endpoint, queue, ucore, uses

DEFAULTS: dict[str, Any] = {"gb_per_job": 0.0, "task_class": np.nan, "jobs_estimate": 1.0, "sites_per_job": 1}
DTYPES: dict[str, Any] = {"Floats": np.float64, "Ints": np.int64, "Bools": np.bool_, "Texts": np.object_}
READS = {"roles": "read_lan", "default_read": "N", "default_write": "N"}


def requests(count: int = 1, **columns: Any) -> AnalysisWork:
    """The request columns of ``count`` chunks; a scalar holds for all of them."""
    values = {}
    for field in dataclasses.fields(AnalysisWork):
        kind = str(field.type)
        value = columns.pop(field.name, DEFAULTS.get(field.name, {"Bools": False}.get(kind)))
        column: np.ndarray[Any, Any] = np.empty(count, dtype=DTYPES[kind])
        column[:] = value
        values[field.name] = column
    assert not columns, f"AnalysisWork has no {sorted(columns)}"
    return AnalysisWork(**values)


def reading_grid(grid: AnalysisGrid | None = None, **tables: Any) -> Snapshot:
    """A reads DISK_A and TAPE_A, B reads DISK_B and a virtual placement, C reads DISK_C, U is unified and reads DISK_C.

    The analysis queues are in the order A, B, C, U; P runs production only and reads everything.
    """
    analysis = {"type": "analysis"}
    snapshot = build(
        **{
            "schedconfig_json": [queue(name, **analysis) for name in "ABC"] + [queue("P"), ucore("U", 8)],
            "resource_types": [dict(row) for row in TYPES],
            "ddm_endpoint": [
                endpoint("DISK_A", "S"),
                endpoint("TAPE_A", "S", is_tape="Y"),
                endpoint("DISK_B", "S"),
                endpoint("B_VP_DISK", "S"),
                endpoint("DISK_C", "S"),
            ],
            "panda_ddm_relation": [
                uses("A", "DISK_A"),
                uses("A", "TAPE_A", **READS),
                uses("B", "DISK_B"),
                uses("B", "B_VP_DISK", **READS),
                uses("C", "DISK_C"),
                uses("U", "DISK_C"),
                *(uses("P", name) for name in ("DISK_A", "DISK_B", "DISK_C")),
            ],
            **tables,
        }
    )
    return snapshot if grid is None else dataclasses.replace(snapshot, analysis=grid)
