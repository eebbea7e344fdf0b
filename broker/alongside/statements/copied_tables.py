"""The PanDA tables that are copied: those that the sources of snapshots read, and those of live tasks.

Columns come from the schema files, conditions from the sources, so that nothing is listed twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from broker.alongside.statements.panda_placements import FILE_COLUMNS, JOB_COLUMNS
from broker.alongside.statements.table_copy import LIVE_TASKS, OF_LIVE_TASKS, Slice, TableCopy
from broker.snapshot.source import AnySource, StatementRead, TableRead
from broker.snapshot.source_list import GRID_SOURCES, OFFERED_SOURCES
from broker.snapshot.sources.recent_starts import RECENT_STARTS
from broker.snapshot.sources.user_jobs import USER_JOBS
from broker.store.connection.tables import JOB_TABLES, PANDA, counted_table, declared_tables
from broker.store.reads.analysis_requests import FAILURE_COLUMNS
from broker.work.chunks import INPUT_FAMILIES

#: Tables that are read with the tasks of a cycle, not with the grid.
TASK_TABLES = ("jedi_tasks", "jedi_datasets", "jedi_dataset_contents", "jedi_taskparams")
#: Also read by the tuning, by `broker doctor`, and by the brokerage of analysis.
_OTHER_TABLES = {
    "config": (Slice(),),
    "global_shares": (Slice(),),
    "jedi_process_lock": (Slice("c.lockedtime > :one_day_ago"),),
    "pandadb_version": (Slice(),),
    "task_evaluation": (Slice("c.timestamp > :one_hour_ago"),),
}
#: Slices for counting starts of jobs where the instant of the start is not needed.
_STARTED = Slice("c.starttime >= :six_hours_ago", instants={"starttime": ":just_now"})
_NOT_STARTED = Slice("c.starttime < :six_hours_ago OR c.starttime IS NULL")
_IN_WINDOW = "c.starttime >= :window_begin AND c.starttime < :window_end AND "


def grid_copies(sources: Iterable[AnySource] = ()) -> tuple[TableCopy, ...]:
    """Return the copies that snapshots are made from.

    Args:
        sources: of other distributions that rules name, besides those of this one.
    """
    whole: dict[str, tuple[Slice, ...]] = {}
    counted: dict[str, TableCopy] = {}
    for source in (*GRID_SOURCES, *(one() for one in OFFERED_SOURCES), *sources):
        for read in source.reads_with("panda"):
            if isinstance(read, StatementRead):
                tables, where = list(read.tables.values()), ""
            else:
                tables, where = [(read.table, read.columns)], read.where or ""
            for table, columns in tables:
                if table in JOB_TABLES:
                    copy = _counted(source, read, table, columns, where)
                    counted[copy.name] = copy
                elif "." not in table and table not in TASK_TABLES:
                    whole[table] = _either(whole.get(table), where)
    shapes = declared_tables(PANDA)
    tables_whole = {**whole, **_OTHER_TABLES}
    copies = [TableCopy(name, name, tuple(shapes[name].columns), tables_whole[name]) for name in sorted(tables_whole)]
    return (*copies, *counted.values())


def _either(before: tuple[Slice, ...] | None, where: str) -> tuple[Slice, ...]:
    """The slice of the rows that at least one of several reads wants."""
    if before is None:
        return (Slice(where),)
    wanted = before[0].where
    if not wanted or not where:
        return (Slice(),)
    return (Slice(wanted if wanted == where else f"({wanted}) OR ({where})"),)


def _counted(
    source: AnySource, read: TableRead | StatementRead, table: str, columns: tuple[str, ...], where: str
) -> TableCopy:
    """The copy that counts a table of jobs, by the columns that a source reads of it."""
    copy = TableCopy(counted_table(table, columns), table, columns, (Slice(where),), counted=True)
    if source.name == USER_JOBS.name:
        # equal jobs are counted, so they have no id of their own, and only the age of the start matters
        kinds = tuple(name for name in columns if name not in ("pandaid", "starttime"))
        slices = (
            (replace(_STARTED, columns=("computingsite",)),)
            if table == "jobsarchived4"
            else (replace(_STARTED, columns=kinds), replace(_NOT_STARTED, columns=kinds))
        )
        return replace(copy, slices=slices)
    if source.name == RECENT_STARTS:
        # all starts between two instants of whole ten minutes count alike
        where = where.replace("starttime IS NOT NULL AND ", _IN_WINDOW)
        return replace(copy, slices=(Slice(where, ("computingsite", "jobstatus"), {"starttime": ":in_window"}),))
    return copy


def task_copies() -> tuple[TableCopy, ...]:
    """Return the copies of the tasks that a brokerage reads, and of their datasets."""
    return (TASKS, DATASETS)


def _whole(
    table: str, *slices: Slice, retention_column: str | None = None, joined: tuple[str, str] | None = None
) -> TableCopy:
    columns = tuple(declared_tables(PANDA)[table].columns)
    return TableCopy(table, table, columns, slices or (Slice(),), joined=joined, retention_column=retention_column)


TASKS = _whole("jedi_tasks", LIVE_TASKS, retention_column="modificationtime")
DATASETS = _whole("jedi_datasets", joined=OF_LIVE_TASKS, retention_column="modificationtime")
PARAMETERS = _whole("jedi_taskparams")
FILES = _whole("jedi_dataset_contents")
READY_FILES = _whole("jedi_dataset_contents", Slice("c.status = 'ready'"), joined=OF_LIVE_TASKS)
WAITS = _whole(
    "tasks_statuslog",
    Slice("c.status = 'pending' AND c.modificationtime > :eight_days_ago"),
)
ENDED_JOBS = TableCopy(
    counted_table("jobsarchived4", FAILURE_COLUMNS),
    "jobsarchived4",
    FAILURE_COLUMNS,
    (
        Slice(
            "c.modificationtime > :done_jobs_since AND c.prodsourcelabel IN ('user', 'panda')",
            tuple(name for name in FAILURE_COLUMNS if name != "modificationtime"),
            {"modificationtime": ":just_now"},
        ),
    ),
    counted=True,
    joined=OF_LIVE_TASKS,
)
"""Jobs of analysis tasks that ended after ``:done_jobs_since``, a parameter of the statement."""

_JEDI_JOBS = "lockedby = 'jedi' AND {}.creationtime > :made_since"


def placement_copies(table: str) -> tuple[TableCopy, TableCopy]:
    """Return the copies of the jobs that JEDI placed after ``:made_since``, and of their input, for ``broker shadow``.

    Nothing else of the jobs is copied, so that no agent takes an old copy of their status for the current one.
    """
    jobs = TableCopy(
        table, table, JOB_COLUMNS, (Slice("c." + _JEDI_JOBS.format("c")),), retention_column="creationtime"
    )
    files = TableCopy(
        "filestable4",
        "filestable4",
        ("row_id", *FILE_COLUMNS, "modificationtime"),
        (Slice("c.type IN (" + ", ".join(f"'{kind}'" for kind in INPUT_FAMILIES) + ")"),),
        joined=(table, "t.pandaid = c.pandaid AND t." + _JEDI_JOBS.format("t")),
        retention_column="modificationtime",
    )
    return jobs, files
