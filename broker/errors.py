"""The base of every error that is shown to an operator, and the exit statuses of commands."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

DONE = 0
FAILED = 1
WRONG_USAGE = 2
REFUSED = 3
NOT_FOUND = 4
NOT_PLACED = 5
GATE_CLOSED = 6

EXIT_STATUSES: dict[int, tuple[str, str]] = {
    DONE: ("done", "done; a reader that closed the pipe early is no failure"),
    FAILED: ("failed", "failed: the database, a file, a cycle, or a check that found a problem"),
    WRONG_USAGE: ("wrong_use", "wrong use: an option, an argument or a value that cannot be read as what it should be"),
    REFUSED: ("refused", "refused: understood and not done, as for stale data, another leader or a value out of range"),
    NOT_FOUND: ("not_found", "not found: a task, job, queue, decision, key, snapshot, pool ..., or no database at all"),
    NOT_PLACED: ("not_placed", "evaluated but not placed: no queue or nucleus was found for all of the work"),
    GATE_CLOSED: (
        "gate_closed",
        "compared, and the gate stays closed: a criterion of `broker shadow --gate` does not hold, or running services "
        "would not go on through `broker db upgrade`",
    ),
}
"""Each exit status with its name in JSON and its meaning; the only ones that commands end with."""

MOST_NEAR = 3


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


class NotFound(BrokerError):
    """What was named does not exist."""

    exit_status = NOT_FOUND


def nearest(name: str, known: Iterable[str], count: int = MOST_NEAR) -> tuple[str, ...]:
    """The known names most similar to ``name``, best first, ignoring case."""
    by_folded = {one.casefold(): one for one in sorted(known, reverse=True)}
    folded = name.casefold()
    close = difflib.get_close_matches(folded, list(by_folded), n=count, cutoff=0.6)
    inside = sorted((one for one in by_folded if folded and folded in one and one not in close), key=len)
    return tuple(by_folded[one] for one in [*close, *inside][:count])


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A question that suggests the nearest names; ``otherwise`` when none is near."""
    close = nearest(name, known)
    return f"did you mean {' or '.join(close)}?" if close else otherwise
