"""The tables that the tests run on are PanDA's, column by column: its own definitions, or ours."""

from __future__ import annotations

from typing import Any

import psycopg2
from panda import definitions
from panda.loading import name_of, plain
from panda.own_tables import Column, known_columns, read_columns

JOBS = ("jobsdefined4", "jobsactive4", "jobsarchived4")
#: Columns of ours that are of another type than PanDA's, and why.
OTHER_TYPE = {
    "a job keeps every value when it moves to another table: each has the widest type of the three": {
        *((table, name) for table in JOBS for name in ("taskid", "reqid")),
        ("jobsactive4", "ddmerrordiag"),
        *(
            ("jobsdefined4", name)
            for name in ("minramcount", "maxdiskcount", "maxcpucount", "nevents", "cloud", "grid")
        ),
        *(("jobsdefined4", f"{name}errordiag") for name in ("taskbuffer", "ddm", "pilot", "exe")),
    },
    "what Harvester may report is longer": {
        ("harvester_instances", "sw_version"),
        ("harvester_workers", "minramcount"),
    },
    "any number is taken": {("jedi_work_queue", "queue_order")},
    "a view of PanDA's, where ours is a table": {("mv_worker_node_summary", "pct_within_pq")},
}
#: Columns of ours that PanDA's tables have not (any more), and why.
ONLY_OURS = {
    "PanDA's job object has them, and scenarios may carry them": {
        (table, name) for table in JOBS for name in ("homecloud", "proddblocktoken", "outputfilelocation")
    },
    "the report of a pilot is found by its task": {("job_output_report", "jeditaskid")},
    "an older form of PanDA's view": {("mv_worker_node_summary", "atlas_site")},
}


def _columns(url: str) -> dict[tuple[str, str, str], Column]:
    with psycopg2.connect(plain(url)) as connection:
        columns = read_columns(connection)
    connection.close()
    return {(one.schema, one.table, one.name): one for one in columns}


KNOWN = {(one.schema, one.table, one.name): one for one in known_columns()}


def test_each_column_of_ours_has_pandas_name_and_type(test_server: Any) -> None:
    """What a new installation makes, before anything is added for the tests."""
    url = test_server.create()
    ours = _columns(url)
    test_server.drop(name_of(url))
    other_type = {key[1:] for key, one in ours.items() if key in KNOWN and one.type != KNOWN[key].type}
    assert other_type == set().union(*OTHER_TYPE.values())
    assert {key[1:] for key in ours.keys() - KNOWN.keys()} == set().union(*ONLY_OURS.values())
    assert len(ours) > 800


def test_the_tables_of_this_run_have_every_column_of_pandas(empty_site: str) -> None:
    """With PanDA's own definitions this holds the file of columns to them, nullability and defaults as well."""
    columns = _columns(empty_site)
    assert KNOWN.keys() <= columns.keys()
    assert {key: columns[key].type for key in KNOWN} == {key: one.type for key, one in KNOWN.items()}
    if definitions.checkout() is not None:
        assert {key: columns[key] for key in KNOWN} == KNOWN
