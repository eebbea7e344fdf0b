"""A task parameter that cannot be used: which one, its value, and what to do."""

from __future__ import annotations

from typing import Any

from broker.errors import WRONG_USAGE, BrokerError

MOST_CHARACTERS = 60


class BadParameter(BrokerError):
    """A task that cannot be submitted as it is described; nothing was submitted.

    Attributes:
        field: the parameter, such as ``jobParameters[2].dataset``.
    """

    exit_status = WRONG_USAGE
    http_status = 422

    def __init__(self, field: str, value: Any, why: str, remedy: str) -> None:
        shown = "" if value is None else f" is {_shown(value)}"
        super().__init__(f"{field}{shown}: {why}", "task parameters", remedy)
        self.field = field


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."
