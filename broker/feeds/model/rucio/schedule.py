"""Which datasets are asked for next, and when one is asked for again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from broker.feeds.model.rucio.answers import Did

SAME_TIME_S = 300
"""Datasets that became due within so many seconds are asked for by urgency."""


@dataclass(frozen=True)
class Pace:
    """How often a dataset is asked for.

    Attributes:
        first_s: seconds until the second time, and after each change.
        longest_s: seconds between two times at most.
        growth: by which the time grows while nothing changes.
        failed_s: seconds until another try after one that got no answer, doubled each time up to ``longest_s``.
    """

    first_s: float = 300.0
    longest_s: float = 1500.0
    growth: float = 2.0
    failed_s: float = 60.0


PACE = Pace()


@dataclass(frozen=True)
class Asked:
    """What is on record of a DID that was asked for.

    Attributes:
        did: scope and name.
        next_at: when it is to be asked for again (aware).
        interval_s: the time that was waited last.
        digest: of the last answer; None without one.
        failures: tries in a row that got no answer.
    """

    did: Did
    next_at: datetime
    interval_s: float
    digest: str | None
    failures: int = 0


@dataclass(frozen=True)
class Needed:
    """A DID that brokerage needs: the soonest needed ones come first."""

    did: Did
    urgency: int


def due(needed: Iterable[Needed], asked: dict[Did, Asked], now: datetime, most: int, pace: Pace = PACE) -> list[Did]:
    """The DIDs to ask for now, at most ``most``: those without an answer first, by urgency, then those that are due.

    Those that became due in the same few minutes are asked for by urgency as well; but none waits behind others that
    became due later, so that all stay fresh when there is more to ask for than there is time. A time that lies further
    ahead than anybody waits was set by a wrong clock: such a DID is due.

    Args:
        needed: what brokerage needs; a small urgency is needed soonest.
        asked: what is on record, by DID.
        now: the instant (aware).
        most: how many may be asked for.
        pace: how long is waited at most.
    """
    furthest = now + timedelta(seconds=max(pace.first_s, pace.longest_s))
    found: dict[Did, tuple[bool, int, int]] = {}
    for one in needed:
        record = asked.get(one.did)
        if record is not None and now < record.next_at <= furthest:
            continue
        answered = record is not None and record.digest is not None
        waited = 0 if record is None or not answered else int(record.next_at.timestamp() // SAME_TIME_S)
        rank = (answered, waited, one.urgency)
        found[one.did] = min(found.get(one.did, rank), rank)
    return sorted(found, key=lambda did: (found[did], did))[:most]


def after_answer(did: Did, before: Asked | None, digest: str, now: datetime, pace: Pace) -> Asked:
    """The record after an answer at ``now``: the time until the next one grows while the answers say the same."""
    same = before is not None and before.digest == digest
    grown = min(pace.longest_s, before.interval_s * pace.growth) if same and before is not None else pace.first_s
    return Asked(did, now + timedelta(seconds=grown), grown, digest)


def after_failure(did: Did, before: Asked | None, now: datetime, pace: Pace) -> Asked:
    """The record after a try at ``now`` that got no answer: what was known stays."""
    failures = 1 if before is None else before.failures + 1
    wait_s = min(pace.longest_s, pace.failed_s * 2.0 ** min(failures - 1, 30))
    interval_s = pace.first_s if before is None else before.interval_s
    return Asked(did, now + timedelta(seconds=wait_s), interval_s, None if before is None else before.digest, failures)
