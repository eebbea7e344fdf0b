"""PanDA's task buffer over one database, in this process: its own SQL through its own PostgreSQL wrapper."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extras
import sqlalchemy as sa

from panda import rucio_stub
from panda.installation import CLOCK

_STATISTICS = """
DELETE FROM doma_panda.jobs_share_stats; DELETE FROM doma_panda.jobsdefined_share_stats;
DELETE FROM doma_panda.mv_jobsactive4_stats;
INSERT INTO doma_panda.jobs_share_stats (ts, gshare, computingsite, jobstatus, maxpriority, prorated_diskio_avg, njobs,
    hs, vo, workqueue_id, resource_type, nucleus)
SELECT {now}, gshare, computingsite, jobstatus, currentpriority,
    diskio / greatest(coalesce(nullif(corecount, 0), 1), 1), 1, 0, vo, workqueue_id, resource_type, nucleus
FROM doma_panda.jobsactive4 WHERE computingsite IN (SELECT panda_queue FROM doma_panda.schedconfig_json);
INSERT INTO doma_panda.jobsdefined_share_stats (ts, gshare, computingsite, jobstatus, maxpriority, prorated_diskio_avg,
    njobs, hs, vo, workqueue_id, resource_type, nucleus)
SELECT {now}, gshare, computingsite, jobstatus, currentpriority,
    diskio / greatest(coalesce(nullif(corecount, 0), 1), 1), 1, 0, vo, workqueue_id, resource_type, nucleus
FROM doma_panda.jobsdefined4 WHERE computingsite IN (SELECT panda_queue FROM doma_panda.schedconfig_json);
INSERT INTO doma_panda.mv_jobsactive4_stats (cur_date, cloud, computingsite, workinggroup, relocationflag, jobstatus,
    processingtype, prodsourcelabel, currentpriority, num_of_jobs, vo, workqueue_id, num_of_cores, resource_type)
SELECT {now}, cloud, computingsite, workinggroup, relocationflag, jobstatus, processingtype, prodsourcelabel,
    currentpriority / 10 * 10, 1, vo, workqueue_id, coalesce(actualcorecount, corecount), resource_type
FROM doma_panda.jobsactive4;
"""


#: What PanDA's own rewriting from Oracle's dialect leaves as PostgreSQL cannot read it, or reads in another sense.
_DIALECT = (
    (re.compile(r"""(\w+\.value_json)\."([^"]+)\""""), r"(\1->'\2')::text"),
    (re.compile(r"(\w+\.value_json)\.(\w+)"), r"(\1->>'\2')"),
    (re.compile(r"CURRENT_DATE\s*-\s*(\w+|%s)\s*/\s*24", re.IGNORECASE), r"{now} - \1 * INTERVAL '1 hour'"),
    (re.compile(r"CURRENT_DATE\s*-\s*(\d+|%s)", re.IGNORECASE), r"{now} - \1 * INTERVAL '1 day'"),
    (re.compile(r"CURRENT_(DATE|TIMESTAMP)", re.IGNORECASE), "{now}"),
)


class _Cursor(psycopg2.extensions.cursor):
    """Runs PanDA's SQL in the sense it has on Oracle, at the time of the scenario."""

    def execute(self, query: Any, variables: Any = None) -> None:
        super().execute(_translated(query), variables)


def _translated(query: Any) -> Any:
    if not isinstance(query, str):
        return query
    for pattern, replacement in _DIALECT:
        query = pattern.sub(replacement, query)
    return query.replace("{now}", f"TIMESTAMP '{CLOCK.now.isoformat(sep=' ')}'")


#: Numbers come as Oracle's driver gives them.
_FLOATS = psycopg2.extensions.new_type(
    psycopg2.extensions.DECIMAL.values, "FLOAT", lambda value, _: None if value is None else float(value)
)


def connect(url: str) -> Any:
    """A connection to the database at ``url`` that tells the time of the scenario."""
    parts = sa.make_url(url)
    host = parts.host or parts.query.get("host")
    connection = psycopg2.connect(
        dbname=parts.database,
        user=parts.username,
        password=parts.password,
        host=host,
        port=parts.port,
        cursor_factory=_Cursor,
    )
    psycopg2.extensions.register_type(_FLOATS, connection)
    psycopg2.extras.register_default_json(connection, loads=str)
    psycopg2.extras.register_default_jsonb(connection, loads=str)
    return connection


class _OneProxy:
    """Stands for the pool of database proxies: there is one."""

    def __init__(self, proxy: Any) -> None:
        self._proxy = proxy

    @contextlib.contextmanager
    def get(self) -> Iterator[Any]:
        yield self._proxy


def task_buffer(connection: Any) -> Any:
    """PanDA's ``JediTaskBuffer`` over ``connection``."""
    from pandajedi.jedicore.JediDBProxy import DBProxy
    from pandajedi.jedicore.JediTaskBuffer import JediTaskBuffer
    from pandaserver.taskbuffer.TaskBuffer import TaskBuffer
    from pandaserver.taskbuffer.WrappedCursor import WrappedCursor
    from pandaserver.taskbuffer.WrappedPostgresConn import WrappedPostgresConn

    _forget()
    proxy = DBProxy()
    proxy.conn = WrappedPostgresConn(connection)
    proxy.cur = WrappedCursor(proxy.conn)
    proxy.cur.initialize()
    buffer = JediTaskBuffer.__new__(JediTaskBuffer)
    TaskBuffer.__init__(buffer)
    buffer.proxyPool = _OneProxy(proxy)
    return buffer


def _forget() -> None:
    """PanDA remembers for an hour, whatever the database: values of ``config``, levels of architecture, core powers."""
    from pandaserver.taskbuffer import db_proxy_mods
    from pandaserver.taskbuffer.db_proxy_mods.base_module import memoize

    # how the functions are called that ``memoize`` makes
    made_as = memoize(None).__qualname__
    for info in pkgutil.iter_modules(db_proxy_mods.__path__, f"{db_proxy_mods.__name__}."):
        module = importlib.import_module(info.name)
        for owner in [one for one in vars(module).values() if inspect.isclass(one)]:
            for function in vars(owner).values():
                if getattr(function, "__qualname__", "") == made_as:
                    inspect.getclosurevars(function).nonlocals["memo"].clear()


def fill_statistics(connection: Any) -> None:
    """Fill PanDA's tables of job statistics from the jobs, with one row a job as its procedures do on PostgreSQL."""
    with connection.cursor() as cursor:
        cursor.execute(_STATISTICS.replace("{now}", "CURRENT_TIMESTAMP"))
    connection.commit()


def load_rucio(connection: Any, home: Path) -> None:
    """Let the stand-in of Rucio answer from the catalogue of the database, and tell JEDI which endpoints are tape."""
    tables = rucio_stub.TABLES
    tables.replicas = _rows(connection, "broker.dataset_replicas")
    tables.named_files = _rows(connection, "broker.file_replicas")
    tables.metadata = [
        # JSON comes as text, as PanDA wants it of its own tables
        row | {"rule_groupings": json.loads(row["rule_groupings"] or "null")}
        for row in _rows(connection, "broker.dataset_metadata")
    ]
    tables.contents = _rows(connection, "broker.container_contents")
    tables.global_usage = _rows(connection, "broker.rucio_account_usage")
    tables.local_usage = _rows(connection, "broker.rucio_local_usage")
    tables.files = _files(connection)
    tables.arrange()
    endpoints = {
        row["ddm_endpoint_name"]: {"state": "ACTIVE", "is_tape": row["is_tape"] in ("Y", "y")}
        for row in _rows(connection, "doma_panda.ddm_endpoint")
    }
    (home / "endpoints.json").write_text(json.dumps(endpoints), encoding="utf-8")


def _rows(connection: Any, table: str) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table} ORDER BY 1, 2")
        names = [column.name for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    connection.commit()
    return rows


def _files(connection: Any) -> dict[tuple[str, str], list[tuple[str, str]]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT d.datasetname, c.lfn, c.scope FROM doma_panda.jedi_datasets d "
            "JOIN doma_panda.jedi_dataset_contents c "
            "ON c.jeditaskid = d.jeditaskid AND c.datasetid = d.datasetid ORDER BY d.jeditaskid, d.datasetid, c.fileid"
        )
        rows: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for name, lfn, scope in cursor.fetchall():
            bare = name[:-1] if name.endswith("/") else name
            of_name, _, rest = bare.partition(":")
            did = (of_name, rest) if rest else (bare.split(".")[0], bare)
            rows.setdefault(did, []).append((lfn, scope))
    connection.commit()
    return rows
