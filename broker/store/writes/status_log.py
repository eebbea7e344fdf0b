"""The log of the statuses of jobs: since when a job is in a status. Part of the statements that change statuses."""

from __future__ import annotations

import re
import socket

HOST = re.sub(r"[^A-Za-z0-9.-]", "", socket.gethostname())[:128]
"""This machine, as the logs of PanDA's tables name who changed a status; safe within SQL text."""

_LOG_STATUSES = """
INSERT INTO {panda}.jobs_statuslog (pandaid, modificationtime, jobstatus, prodsourcelabel, cloud, computingsite,
    modificationhost, modiftime_extended)
SELECT pandaid, NOW, jobstatus, prodsourcelabel, cloud, computingsite, 'HOST', NOW FROM CHANGED"""


def note_status(changed: str, now: str) -> str:
    """The statement that logs the statuses of jobs.

    Args:
        changed: name of the rows: jobs with their new status, in columns named as those of the job tables.
        now: parameter with the instant (naive UTC), as it is written in the whole statement.
    """
    return _LOG_STATUSES.replace("CHANGED", changed).replace("NOW", now).replace("HOST", HOST)
