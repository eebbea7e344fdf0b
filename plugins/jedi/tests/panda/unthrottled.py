"""A throttler for ``[jobthrottle]`` that lets all pass: how many jobs may wait is not what is tested."""

from __future__ import annotations

from typing import Any

from pandajedi.jedithrottle.JobThrottlerBase import JobThrottlerBase


class Unthrottled(JobThrottlerBase):  # type: ignore[misc]
    """Never throttles."""

    def toBeThrottled(self, *_: Any) -> Any:
        """Let the combination pass."""
        return self.retUnThrottled
