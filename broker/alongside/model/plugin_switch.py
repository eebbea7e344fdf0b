"""Which tasks JEDI's plug-in decides on, and which it leaves to PanDA's own brokers; pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

WHOLE = 100
OFF, OTHER_LABEL, BEYOND_PERCENT = "switched_off", "label", "percent"


@dataclass(frozen=True)
class PluginSwitch:
    """The switch as an operator has set it.

    Attributes:
        enabled: whether the plug-in decides at all.
        percent: of tasks that it decides on, 0 to 100.
        labels: values of ``prodsourcelabel`` that it decides on; None for any.
    """

    enabled: bool = True
    percent: int = WHOLE
    labels: tuple[str, ...] | None = None

    def leaves(self, task: int, label: str | None) -> str | None:
        """Why a task is left to PanDA; None where the plug-in decides."""
        if not self.enabled:
            return OFF
        if self.labels is not None and label not in self.labels:
            return OTHER_LABEL
        return None if place_of(task) < self.percent else BEYOND_PERCENT

    def __str__(self) -> str:
        labels = "all labels" if self.labels is None else f"labels {', '.join(self.labels)}"
        return f"{'on' if self.enabled else 'off'}, {self.percent} % of tasks, {labels}"


def place_of(task: int) -> int:
    """Return the place of a task among 100, the same in every process: a task among 10 % is among 20 %, too.

    >>> sum(place_of(task) < 10 for task in range(10_000))
    1042
    """
    digest = hashlib.blake2b(str(task).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % WHOLE
