"""Words and numbers that pilots and the server of PanDA use. Source: PanDA server, protocol of the job dispatcher."""

from __future__ import annotations

# StatusCode of an answer.
OK = 0
TIMED_OUT = 10
NO_JOBS = 20
DATABASE_ERROR = 30
INVALID = 50
WRONG_ROLE = 60
NOT_PERMITTED = 70

NO_COMMAND = "NULL"
TO_BE_KILLED = "tobekilled"
ALREADY_DONE = "alreadydone"
DEBUG = "debug"

#: States of jobs that a pilot may report.
REPORTABLE = ("starting", "running", "finished", "failed", "holding", "transferring")
FINAL = ("finished", "failed")
WORKER_STATES = ("started", "finished")

NOT_GIVEN = ("", "NULL", "None", "null")
"""Texts that stand for no value."""

BATCH_ID_CHANGED = 1
"""superrorcode of a job that goes on under another batch id: its worker was started again."""
