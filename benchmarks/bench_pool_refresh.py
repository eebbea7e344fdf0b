"""How long a refresh of the mapping of 1,000 SubmitPools to 5,000 queues takes: reading, evaluating and writing.

Three refreshes are measured: of an empty mapping, of an unchanged one, and after one site in ten has changed.
"""

from __future__ import annotations

import json
import tempfile
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

import sqlalchemy as sa

from benchmarks.bench_pools import POOLS, QUEUES, SEED, pools, sites
from benchmarks.measuring import NOW, asked_folder, report
from broker.pools.statements.pool_refresh import new_mapping, write_mapping
from broker.pools.statements.pool_registration import register
from broker.pools.statements.resource_versions import ResourceText, current, publish
from broker.store.connection.database import Database
from broker.store.connection.embedded import EmbeddedServer
from broker.store.schema.migrate import upgrade


def change_memory(grid: dict[str, Any]) -> dict[str, Any]:
    """Change the amount of memory at every tenth site."""
    for number, site in enumerate(grid.values()):
        if number % 10 == 0:
            for ce in site["ces"].values():
                ce["params"]["Memory"] = "8000"
    return grid


def refresh(database: Database, name: str, hours: int) -> dict[str, Any]:
    """Measure one refresh and its parts."""
    start_s = perf_counter()
    with database.read_snapshot() as connection:
        version = current(connection)
        if version is None:
            raise SystemExit("no resources")
        read_s = perf_counter() - start_s
        mapping = new_mapping(connection, version.content.resources)
    evaluated_s = perf_counter() - start_s
    with database.begin() as connection:
        now = NOW + timedelta(hours=hours)
        counts = write_mapping(connection, mapping, version.content.resources, version.id, now)
    total_s = perf_counter() - start_s
    pairs = int(mapping.counts.sum())
    seconds = {"read_s": read_s, "evaluate_s": evaluated_s - read_s, "write_s": total_s - evaluated_s}
    return {"refresh": name, **counts, "pairs": pairs, **seconds, "total_s": total_s}


def main() -> None:
    """Measure and report."""
    reports = asked_folder()
    with tempfile.TemporaryDirectory(prefix="gridbroker-bench-") as folder:
        server = EmbeddedServer(Path(folder))
        with Database(server.start(), on_close=server.stop) as database:
            upgrade(database)
            grid = sites(QUEUES, SEED)
            with database.begin() as connection:
                for pool in pools(POOLS, SEED):  # without resources the pools are only recorded
                    register(connection, pool, NOW)
                publish(connection, ResourceText("bench", "json", json.dumps(grid)), NOW)
            rows = [refresh(database, "first", 0), refresh(database, "unchanged", 1)]
            with database.begin() as connection:
                publish(connection, ResourceText("bench", "json", json.dumps(change_memory(grid))), NOW)
            rows.append(refresh(database, "a tenth changed", 2))
            with database.read_snapshot() as connection:
                stored = connection.scalar(sa.text("SELECT count(*) FROM broker.submit_pool_links"))
    if stored != rows[-1]["pairs"]:
        raise SystemExit(f"{stored} pairs are stored, {rows[-1]['pairs']} were found")
    report(reports, "pool_refresh", rows, target="total_s < 5 with 1,000 pools and 5,000 queues")


if __name__ == "__main__":
    main()
