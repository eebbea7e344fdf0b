"""States of tasks, as PanDA names them."""

from __future__ import annotations

NO_LONGER_BROKERED = ("done", "finished", "failed", "broken", "aborted", "exhausted", "obsolete")
"""States in which none of a task's work is brokered any more."""
