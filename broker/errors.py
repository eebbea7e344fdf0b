"""The base of every error that is shown to an operator."""

from __future__ import annotations

FAILED = 1
WRONG_USAGE = 2
REFUSED = 3


class BrokerError(Exception):
    """What went wrong, where, and what to do about it.

    Attributes:
        what: the finding, one phrase.
        where: the table, file, address or key it was found in; empty when there is none.
        remedy: what the reader can do; empty when nothing can be done.
        exit_status: exit status of a command that ends with it.
    """

    exit_status = FAILED

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where, remedy)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        return "; ".join(part for part in (self.what, self.where, self.remedy) if part)


class Refused(BrokerError):
    """The request was understood and is not carried out: stale data, not the leader, invalid input."""

    exit_status = REFUSED
