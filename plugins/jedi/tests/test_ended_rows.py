"""Jobs that our agents end leave the rows that PanDA's own functions leave: killing, and the Watcher's verdict."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from typing import Any

import pytest
from grids.ends import ENDS, End, content
from panda.ending import add_zeros, end_in_panda
from panda.installation import CLOCK

from broker.lifecycle.statements.actions import ActionContext, JobAction, act
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue

KEYS = {
    "jobsdefined4": ("pandaid",),
    "jobsactive4": ("pandaid",),
    "jobsarchived4": ("pandaid",),
    "filestable4": ("row_id",),
    "jedi_datasets": ("jeditaskid", "datasetid"),
    "jedi_dataset_contents": ("jeditaskid", "datasetid", "fileid"),
    "jedi_tasks": ("jeditaskid",),
    "jobs_statuslog": ("pandaid", "jobstatus"),
    "metatable": ("pandaid",),
    "jobparamstable": ("pandaid",),
    "jedi_events": ("jeditaskid", "pandaid"),
}
#: Where ours is another row on purpose, and why.
DIFFERENCES = {
    ("jobsarchived4", "taskbuffererrordiag"): "ours names the rule with what was measured and its limit",
    ("jobsarchived4", "jobdispatchererrordiag"): "ours names the rule with what was measured and its limit",
    ("jobsactive4", "taskbuffererrordiag"): "of a running job that is told to stop, likewise",
    ("jobs_statuslog", "modificationhost"): "each names the machine that it runs on",
    ("jedi_datasets", "nfilesonhold", 13): "PanDA forgets what is on hold for a job that fails while transferring",
}
#: A trigger of PanDA's own tables stamps it with the time of the server's host.
STAMPED = "realmodificationtime"
Row = dict[str, Any]
Tables = dict[str, dict[tuple[Any, ...], Row]]


def _tables(site: Any) -> Tables:
    found: Tables = {}
    for table, keys in KEYS.items():
        with site.connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM doma_panda.{table}")
            names = [column.name for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        site.connection.commit()
        for row in rows:
            row.pop(STAMPED, None)
        found[table] = {tuple(row[key] for key in keys): row for row in rows}
    return found


def _end_here(site: Any, ends: list[End]) -> tuple[int, ...]:
    moves = []
    for one in ends:
        (seen,) = site.rows(f"SELECT modificationtime, computingsite, jeditaskid FROM doma_panda.{one.table} "
                            "WHERE pandaid = %s", one.pandaid)  # fmt: skip
        moves.append(JobAction(one.pandaid, one.table, one.old_status, *seen, "activated", one.action, one.code,
                               200.0, 100.0, error=one.error))  # fmt: skip
    with Database(site.url) as database, database.begin() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        now = CLOCK.now.replace(tzinfo=UTC)
        return act(connection, moves, ActionContext(catalogue, "timeouts", 1, now, standalone=False)).acted


def _unlike(theirs: Tables, ours: Tables) -> Iterator[tuple[str, Any, str, Any, Any]]:
    for table, rows in theirs.items():
        if rows.keys() != ours[table].keys():
            yield table, sorted(rows.keys() ^ ours[table].keys(), key=str), "rows", len(rows), len(ours[table])
        for key in rows.keys() & ours[table].keys():
            for column, value in rows[key].items():
                if value != ours[table][key][column]:
                    yield table, key, column, value, ours[table][key][column]


def _named(table: str, key: Any, column: str) -> tuple[Any, ...] | None:
    found = [name for name in ((table, column), (table, column, key[0])) if name in DIFFERENCES]
    return found[0] if found else None


@pytest.fixture
def both(make_site: Any) -> tuple[Any, Any]:
    sites = make_site(content()), make_site(content())
    for site in sites:
        add_zeros(site.connection)
    return sites


def test_rows_are_equal(both: tuple[Any, Any]) -> None:
    theirs, ours = both
    before = _tables(theirs)
    assert not list(_unlike(before, _tables(ours)))
    panda = [one for one in ENDS if not one.event_service]
    end_in_panda(theirs.connection, panda)
    acted = _end_here(ours, list(ENDS))
    after = _tables(theirs)
    unlike = list(_unlike(after, _tables(ours)))
    others = [one for one in unlike if _named(*one[:3]) is None]
    assert others == [], "\n".join(map(str, others))
    assert {_named(*one[:3]) for one in unlike} == DIFFERENCES.keys()
    assert acted == tuple(sorted(one.pandaid for one in panda))
    archived = after["jobsarchived4"]
    substatuses = {key[0]: row["jobsubstatus"] for key, row in archived.items()}
    assert {name for name in substatuses.values() if name} >= {"toreassign", "was", "merge_closed", "merge_failed"}
    assert archived[14,]["hs06sec"] == 24 * 3600 * 8 * 10.5 and archived[1,]["hs06sec"] is None
    # every table but that of events was written
    assert {table for table in KEYS if before[table] != after[table]} == KEYS.keys() - {"jedi_events"}
