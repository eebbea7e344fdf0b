"""What agents do to PanDA's tables beside reading them, as privileges of PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping

TUNING = "tuning"
#: Agents that write PanDA's tables: alongside PanDA they are off until they are switched on by name.
WRITERS = ("production_task", "timeouts", "fast_rebrokerage", "analysis_rebrokerage")

_ENDING: Mapping[str, tuple[str, ...]] = {
    "jobsdefined4": ("UPDATE", "DELETE"),
    "jobsactive4": ("UPDATE", "DELETE"),
    "jobsarchived4": ("INSERT", "UPDATE"),
    "jobs_statuslog": ("INSERT",),
    "filestable4": ("UPDATE",),
    "metatable": ("UPDATE",),
    "jobparamstable": ("SELECT", "UPDATE"),
    "jedi_dataset_contents": ("UPDATE",),
    "jedi_datasets": ("UPDATE",),
    "jedi_tasks": ("UPDATE",),
}
#: Privileges beside SELECT, by who needs them and PanDA's table.
NEEDED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "production_task": {
        "jedi_tasks": ("UPDATE",),
        "jedi_datasets": ("UPDATE",),
        "tasks_statuslog": ("INSERT",),
    },
    "timeouts": _ENDING,
    "fast_rebrokerage": _ENDING,
    "analysis_rebrokerage": _ENDING,
    TUNING: {"config": ("INSERT", "UPDATE", "DELETE")},
}


def privileges_on(table: str) -> frozenset[str]:
    """What any agent needs on one of PanDA's tables."""
    return frozenset({"SELECT"}.union(*(tables.get(table, ()) for tables in NEEDED.values())))
