"""The process that does one run: it has a core, memory and statements of its own, and can be ended from outside."""

from __future__ import annotations

import signal
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from broker.api.plain import plain
from broker.api.problems import problem_of
from broker.app import long_runs
from broker.redaction import redact
from broker.store.connection.database import Database
from broker.store.connection.names import Names
from broker.store.http import runs

TELL_EVERY_S = 0.3


class CancelledRun(Exception):
    """Somebody wants the run no longer."""


def main(url: str, names: Names, run: int, now: datetime, config: Path | None) -> None:
    """Do run number ``run`` of the database at ``url`` and keep what came of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Database(url, names, application_name="gridbroker run", pool_size=1) as database:
        with database.begin() as connection:
            found = runs.find(connection, run)
        if found is None:
            return
        state, result, problem = _done(database, found, now, config)
        with database.begin() as connection:
            runs.end(connection, run, state, result, problem)


def _done(
    database: Database, found: runs.Run, now: datetime, config: Path | None
) -> tuple[runs.State, Any, dict[str, Any] | None]:
    told_s = [float("-inf")]

    def report_progress(done: int, total: int) -> None:
        if time.monotonic() - told_s[0] < TELL_EVERY_S and done < total:
            return
        told_s[0] = time.monotonic()
        with database.begin() as connection:
            if not runs.note_progress(connection, found.id, done, total):
                raise CancelledRun

    try:
        asked = long_runs.KINDS[found.kind].model_validate(found.asked)
        return "done", plain(long_runs.run(database, asked, now, config, report_progress)), None
    except CancelledRun:
        return "cancelled", None, None
    except Exception as error:
        problem = problem_of(error)
        return "failed", None, {"code": problem.code, "detail": redact(problem.detail), "remedy": problem.remedy}
