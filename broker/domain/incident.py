"""An incident that may be worth a notification: an alarm, or a reason for which work waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Kind = Literal["alarm", "reason"]
Severity = Literal["critical", "warning", "info"]
GRAVITY = {"critical": 0, "warning": 1, "info": 2}
"""Sort key of severities, most severe first."""


@dataclass(frozen=True)
class Incident:
    """An open incident; a later one of the same ``kind``, ``code`` and ``about`` is the same incident.

    Attributes:
        kind: alarm or reason.
        code: code of the alarm or reason.
        about: the source, agent, task or queue of an alarm; empty for a reason.
        severity: severity of the incident.
        sentence: description in words.
        page: path of the page that shows it.
        since: when it began (aware); None if unknown.
        tasks: number of tasks that wait for a reason.
    """

    kind: Kind
    code: str
    about: str
    severity: Severity
    sentence: str
    page: str = "/"
    since: datetime | None = None
    tasks: int = 0
