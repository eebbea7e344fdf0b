"""Requested figures of tasks: columns of ``jedi_tasks`` that a user may lower to fit more queues."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """A figure that tasks ask for.

    Attributes:
        name: of the column of ``jedi_tasks``.
        columns: of the table of work that hold it.
        unit: of it, or the name of the column that holds its unit.
    """

    name: str
    columns: tuple[str, ...]
    unit: str


RAMCOUNT = Request("ramcount", ("ramcount", "task_ramcount"), "ramunit")
WALLTIME = Request("walltime", ("walltime",), "walltimeunit")
CPUTIME = Request("cputime", ("cputime",), "cputimeunit")
WORKDISKCOUNT = Request("workdiskcount", ("workdiskcount",), "workdiskunit")
OUTDISKCOUNT = Request("outdiskcount", ("outdiskcount",), "outdiskunit")
IOINTENSITY = Request("iointensity", ("iointensity",), "kB/s")

#: In the order in which they are tried.
REQUESTS = (RAMCOUNT, WALLTIME, CPUTIME, WORKDISKCOUNT, OUTDISKCOUNT, IOINTENSITY)
