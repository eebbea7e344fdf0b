"""When a job decides again to take more payloads, the rest of its record stays as it is for a while. Pure.

A site that saw ``can_postpone_last_job`` False may have planned with the ends in the record. A job that turns it back
to True leaves all other values alone for a significant amount of time. Source: Job to Machine channel, draft 0.9,
requirement 3.8; its draft 0.1 says at least 10 minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

POSTPONE = "can_postpone_last_job"
HOLD_OFF_S = 600
REVERTED_FILE = "can_postpone_reverted"
"""Beside the keys: UNIX seconds when the job turned back to True."""


@dataclass(frozen=True)
class Written:
    """What a record becomes.

    Attributes:
        texts: of all its files, by key.
        held: keys whose new values are not written yet.
        reverted: UNIX seconds of the turn that is being held to, ``None`` without one.
        until: UNIX seconds when other values may change again, ``None`` when they may now.
    """

    texts: dict[str, str]
    held: tuple[str, ...] = ()
    reverted: int | None = None
    until: int | None = None


def with_hold_off(
    before: Mapping[str, str], wanted: Mapping[str, str], reverted: int | None, now: int, hold_off_s: int
) -> Written:
    """What to write when a job wants to replace its record.

    Args:
        before: the texts of the record that is there.
        wanted: the texts of the new one.
        reverted: when the job turned back to True, of :data:`REVERTED_FILE`; ``None`` if it never did.
        now: UNIX seconds.
        hold_off_s: for how long other values stay as they are; 0: not at all.
    """
    if before.get(POSTPONE) == "False" and wanted.get(POSTPONE) == "True":
        reverted = now
    # a turn that lies ahead was told by another clock
    if reverted is None or not reverted <= now < reverted + hold_off_s:
        return Written(dict(wanted))
    texts = {key: text for key, text in before.items() if key != POSTPONE}
    held = tuple(key for key in sorted({*texts, *wanted} - {POSTPONE}) if texts.get(key) != wanted.get(key))
    if POSTPONE in wanted:
        texts[POSTPONE] = wanted[POSTPONE]
    return Written(texts, held, reverted, reverted + hold_off_s)
