"""A synthetic grid with work, as a scenario: the same seed gives the same grid."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from grids import jobs, odd, queues, rare, work

NOW = datetime(2026, 8, 1, 12)
Kind = Literal["production_job", "analysis_job", "production_task"]
Row = dict[str, Any]
CLOUDS = ("UK", "FR", "DE", "NL", "US", "ES", "IT", "ND", "CA", "CERN")


@dataclass
class Grid:
    """What the builders share.

    Attributes:
        kind: the brokerage that the work is for.
        dice: of everything that is drawn.
        sites: names; the first few are nuclei.
        queues: rows of ``schedconfig_json``.
        tables: the scenario's tables.
    """

    kind: Kind
    dice: random.Random
    sites: list[str] = field(default_factory=list)
    nuclei: list[str] = field(default_factory=list)
    queues: list[Row] = field(default_factory=list)
    tables: dict[str, list[Row]] = field(default_factory=dict)

    def add(self, table: str, **columns: Any) -> Row:
        """A row of a table; times are written as ISO 8601."""
        row = {name: at.isoformat() if isinstance(at, datetime) else at for name, at in columns.items()}
        self.tables.setdefault(table, []).append(row)
        return row

    def ago(self, **span: float) -> datetime:
        """An instant before now."""
        return NOW - timedelta(**span)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.dice.random() < probability

    def pick(self, *choices: Any) -> Any:
        """One of the choices; a choice that is listed twice is drawn twice as often."""
        return self.dice.choice(choices)


def scenario(seed: int, kind: Kind, *, bent: bool = False, rich: bool = False) -> dict[str, Any]:
    """A scenario file's content.

    Args:
        seed: decides everything that is drawn.
        kind: the brokerage that has work to do.
        bent: with what is odd on real grids.
        rich: with work of every rare kind, on every other grid also with what is odd.
    """
    grid = Grid(kind, random.Random(f"{kind} {seed}"))
    names: Sequence[int] = range(grid.dice.randint(6, 12))
    grid.sites = [f"{CLOUDS[at % len(CLOUDS)]}-SITE{at:03d}" for at in names]
    grid.nuclei = grid.sites[: max(2, len(grid.sites) // 2)]
    builders: tuple[Callable[[Grid], None], ...] = (
        policy,
        queues.build_sites,
        queues.build_queues,
        queues.build_links,
        jobs.build_load,
        work.build_work,
    )
    for build in builders:
        build(grid)
    if rich:
        rare.enrich(grid)
    if bent or (rich and grid.chance(0.5)):
        odd.bend(grid)
    return {"now": NOW.isoformat(), "tables": grid.tables}


def policy(grid: Grid) -> None:
    """Configuration, shares, work queues and resource types."""
    keys = [
        ("jobbroker", "NW_ACTIVE", grid.pick("true", "true", "false"), "boolean"),
        ("jobbroker", "NQUEUED_SAT_CAP", "150", "integer"),
        ("jobbroker", "NQUEUELIMITSITE_MC Simulation", grid.pick("5", "25", "60"), "integer"),
        ("jobbroker", "SIZE_CUTOFF_TO_MOVE_INPUT", grid.pick("5", "10", "40"), "integer"),
        ("jobbroker", "STORAGE_MIN_FREE_SIZE", "200", "integer"),
        ("anal_jobbroker", "IO_INTENSITY_CUTOFF_USER", "100", "integer"),
        ("anal_jobbroker", "DATA_CHECK_TIMEOUT_USER", "48", "integer"),
        ("taskbrokerage", "DISK_THRESHOLD", "100", "integer"),
        ("taskbrokerage", "FREE_DISK_CUTOFF", "1000", "integer"),
    ]
    if grid.chance(0.3):
        keys.append(("jobbroker", "MIN_WEIGHT_managed", grid.pick("0.2", "1.0"), "float"))
    for component, key, value, kind in keys:
        grid.add("config", app="jedi", component=component, key=key, vo="atlas", value=value, type=kind)
    shares = [("Production", None, 60, None), ("L1 User Analysis", None, 40, None)]
    shares += [(name, "Production", 20, "managed|test") for name in work.PRODUCTION_SHARES]
    shares += [(name, "L1 User Analysis", 50, "user|panda") for name in work.ANALYSIS_SHARES]
    for name, parent, value, label in shares:
        row = {"name": name, "value": value, "parent": parent, "prodsourcelabel": label}
        grid.add("global_shares", **row, vo="atlas", throttled="Y")
    queue = {"queue_id": 101, "queue_name": "mc_special", "queue_type": "managed", "vo": "atlas"}
    grid.add("jedi_work_queue", **queue, queue_order=1, criteria="campaign = :c", variables="c:special",
             stretchable=1, queue_function="Resource")  # fmt: skip
    for name, (least, most), (low, high) in (
        ("SCORE", (1, 1), (None, 2000)),
        ("SCORE_HIMEM", (1, 1), (2001, None)),
        ("MCORE", (2, None), (None, 2000)),
        ("MCORE_HIMEM", (2, None), (2001, None)),
    ):
        row = {"resource_name": name, "mincore": least, "maxcore": most}
        grid.add("resource_types", **row, minrampercore=low, maxrampercore=high)
