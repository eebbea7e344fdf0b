"""Raw rows for tests, by table; a column that a row leaves out is NULL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import RawSource, Rows, SourceState
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source_list import grid_sources

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
#: Sources whose rows the broker writes itself and its tables constrain.
OF_OUR_OWN = ("features", "pools", "pins")
COLUMNS: dict[str, tuple[str, tuple[str, ...]]] = {
    read.name: (source.name, read.columns_stored)
    for source in grid_sources(analysis=False)
    if source.name not in OF_OUR_OWN
    for read in source.reads
}
ON = json.dumps(dict.fromkeys(("read_lan", "write_lan", "read_wan", "write_wan"), "ON"))

Row = dict[str, Any]


def ago(**delta: float) -> datetime:
    """The time ``delta`` before NOW."""
    return NOW - timedelta(**delta)


def as_rows(table: str, rows: Sequence[Mapping[str, Any]]) -> Rows:
    """The rows with the columns that the source reads from the table."""
    columns = COLUMNS[table][1]
    for row in rows:
        assert set(row) <= set(columns), f"{table} has no {set(row) - set(columns)}"
    return Rows(columns, tuple(tuple(row.get(column) for column in columns) for row in rows))


def sources(**tables: Sequence[Mapping[str, Any]]) -> dict[str, RawSource]:
    """Raw sources of the tables."""
    grouped: dict[str, dict[str, Rows]] = {}
    for table, rows in tables.items():
        grouped.setdefault(COLUMNS[table][0], {})[table] = as_rows(table, rows)
    return {name: RawSource(name, rows_by_table) for name, rows_by_table in grouped.items()}


def build(now: datetime = NOW, states: tuple[SourceState, ...] = (), **tables: Sequence[Mapping[str, Any]]) -> Snapshot:
    """A snapshot of the tables."""
    return build_snapshot("test", now, sources(**tables), states)


def queue(name: str, /, **data: Any) -> Row:
    """A CRIC queue: online, production, one core."""
    document = {"nickname": name, "status": "online", "cloud": "WORLD", "corecount": 1, **data}
    return {"panda_queue": name, "data": json.dumps(document)}


def ucore(name: str, cores: int = 8, **data: Any) -> Row:
    """A unified queue."""
    return queue(name, capability="ucore", type="unified", corecount=cores, **data)


def at_site(queue_name: str, site: str) -> Row:
    return {"panda_site_name": queue_name, "site_name": site}


def endpoint(name: str, site: str, **columns: Any) -> Row:
    """A DATADISK open for every activity."""
    row = {"ddm_endpoint_name": name, "site_name": site, "type": "DATADISK", "is_tape": "N", "space_free": 1000}
    return {**row, "detailed_status": ON, **columns}


def uses(queue_name: str, endpoint_name: str, **columns: Any) -> Row:
    """A relation: the queue reads from and writes to the endpoint by default."""
    row = {"panda_site_name": queue_name, "ddm_endpoint_name": endpoint_name, "roles": "read_lan,write_lan"}
    row |= {"scope": "default", "is_local": "Y", "order_read": 1, "order_write": 1}
    return {**row, "default_read": "Y", "default_write": "Y", **columns}


def link(src: str, dst: str, key: str, value: float | None, ts: datetime | None = NOW) -> Row:
    return {"src": src, "dst": dst, "key": key, "value": value, "ts": ts}


def jobs(queue_name: str, status: str, njobs: float | None, **columns: Any) -> Row:
    row: Row = {"computingsite": queue_name, "jobstatus": status, "njobs": njobs, "gshare": "Simulation"}
    row |= {"vo": "atlas", "prodsourcelabel": "managed", "ncores": 0, "diskio_jobs": 0, "diskio_per_core": 0.0}
    return {**row, **columns}


TYPES = (
    {"resource_name": "SCORE", "mincore": 1, "maxcore": 1, "minrampercore": 0, "maxrampercore": 2000},
    {"resource_name": "MCORE", "mincore": 2, "maxcore": None, "minrampercore": 0, "maxrampercore": 2000},
)


def small_grid() -> dict[str, list[Row]]:
    """A nucleus whose unified and plain queue share its disk, and a satellite with its own disk."""
    return {
        "schedconfig_json": [ucore("N_UCORE"), queue("N_PLAIN"), queue("S_PLAIN"), queue("S_TEST")],
        "panda_site": [at_site("N_UCORE", "NUC"), at_site("N_PLAIN", "NUC"), at_site("S_PLAIN", "SAT")],
        "site": [{"site_name": "NUC", "role": "nucleus"}, {"site_name": "SAT", "role": "satellite"}],
        "resource_types": [dict(row) for row in TYPES],
        "ddm_endpoint": [endpoint("N_DISK", "NUC"), endpoint("S_DISK", "SAT")],
        "panda_ddm_relation": [uses("N_UCORE", "N_DISK"), uses("N_PLAIN", "N_DISK"), uses("S_PLAIN", "S_DISK")],
        "network_matrix_kv": [
            link("SAT", "NUC", "AGIS_closeness", 4),
            link("SAT", "NUC", "Production Output_queued", 30),
            link("SAT", "NUC", "Express_queued", 3),
            link("SAT", "NUC", "dashb_mbps_1d", 60),
        ],
        "job_counts": [jobs("N_UCORE", "running", 7, nucleus="NUC", ncores=14), jobs("S_PLAIN", "activated", 3)],
        "sitedata": [
            {"site": name, "flag": "production", "hours": 3, "getjob": 2, "updatejob": 3, "laststart": ago(minutes=5)}
            for name in ("N_UCORE", "N_PLAIN", "S_PLAIN", "S_TEST")
        ],
    }
