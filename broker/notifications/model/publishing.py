"""The choice of decisions that a channel publishes, and the position that it has confirmed."""

from __future__ import annotations

from collections.abc import Sequence

from broker.codec.work_owner import owner_of
from broker.domain.decisions import DecisionRecord
from broker.notifications.model.terms import Pattern, Terms, fits

DECISION_HEADER = "X-Gridbroker-Decision"
LOST_HEADER = "X-Gridbroker-Lost"


class PublishedDecisions(Terms):
    """The decisions that a channel publishes: those for which all that is named fits; ``*`` is any characters.

    Attributes:
        brokerages: names of brokerages.
        shares: global shares.
        vos: VOs.
    """

    brokerages: tuple[Pattern, ...] = ("*",)
    shares: tuple[Pattern, ...] = ("*",)
    vos: tuple[Pattern, ...] = ("*",)

    def wants(self, record: DecisionRecord) -> bool | None:
        """Return whether a decision is published; None if the filter needs data that is not stored with it. Pure."""
        if not fits(record.decision.brokerage, self.brokerages):
            return False
        filters = [(self.shares, "gshare"), (self.vos, "vo")]
        narrow = [(patterns, name) for patterns, name in filters if "*" not in patterns]
        if not narrow:
            return True
        owner = owner_of(record.work)
        values = [(getattr(owner, name), patterns) for patterns, name in narrow]
        if any(value is not None and not fits(value, patterns) for value, patterns in values):
            return False
        return None if any(value is None for value, _ in values) else True

    @property
    def in_words(self) -> str:
        """The filter in words."""
        filters = (("brokerage", self.brokerages), ("share", self.shares), ("VO", self.vos))
        parts = [f"{kind} {', '.join(patterns)}" for kind, patterns in filters if "*" not in patterns]
        return "; ".join(parts) or "all"


def confirmed_position(sent: Sequence[int], confirmed: int, scanned: int) -> int | None:
    """Return the number up to which decisions are finished, in order; None if there is none.

    Args:
        sent: numbers of the decisions sent, ascending.
        confirmed: number of these, from the first, that have a receipt.
        scanned: number up to which decisions were examined.

    >>> confirmed_position([3, 5, 9], 2, 12), confirmed_position([3, 5, 9], 3, 12), confirmed_position([3], 0, 12)
    (5, 12, None)
    """
    if confirmed == len(sent):
        return scanned
    return sent[confirmed - 1] if confirmed else None
