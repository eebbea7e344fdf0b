from __future__ import annotations

import pytest

from broker.store.service.agent_runs import RunRecord

DRIVER_ERROR = """\
(psycopg.errors.LockNotAvailable) canceling statement due to lock timeout
LINE 2:     DELETE FROM broker.job_actions
DETAIL: somebody holds it
[SQL: DELETE FROM broker.job_actions]
(Background on this error at: https://sqlalche.me/e/21/e3q8)"""
TRACE = """\
Traceback (most recent call last):
  File "a.py", line 1, in f
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "b.py", line 2, in g
sqlalchemy.exc.OperationalError: """


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("OperationalError: " + DRIVER_ERROR, "OperationalError: " + DRIVER_ERROR.splitlines()[0]),
        (TRACE + DRIVER_ERROR, "sqlalchemy.exc.OperationalError: " + DRIVER_ERROR.splitlines()[0]),
        ("Refused: no queues; x: y; remedy", "Refused: no queues; x: y; remedy"),
        ("  File c\nKeyError: 'x'\n", "KeyError: 'x'"),
        ("Traceback (most recent call last):\n  File c\nAssertionError", "AssertionError"),
        (" \n", "no reason given"),
        (None, "no reason given"),
    ],
)
def test_the_error_line_names_the_cause(error: str | None, line: str) -> None:
    assert RunRecord(outcome="failed", error=error).error_line == line
