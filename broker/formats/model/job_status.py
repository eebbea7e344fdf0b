"""Job-to-Machine: what a job reports to its machine about itself, and the formulas of the draft. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from broker.formats.model import feature_keys
from broker.formats.model.feature_keys import BadTextError, Contents

POSTPONE = "can_postpone_last_job"
HOLD_OFF_S = 600
REVERTED_FILE = "can_postpone_reverted"
"""A file next to the keys: UNIX seconds when the job turned back to True."""


UnixSeconds = Annotated[int, Field(strict=True, ge=0)]


@dataclass(frozen=True)
class RecordUpdate:
    """A record as it is written.

    Attributes:
        texts: the texts of all its files, by key.
        held: keys whose new values are not written yet.
        reverted: UNIX seconds of the turn for which values are held, ``None`` without one.
        until: UNIX seconds when other values may change again, ``None`` when they may now.
    """

    texts: dict[str, str]
    held: tuple[str, ...] = ()
    reverted: int | None = None
    until: int | None = None


def with_hold_off(
    before: Mapping[str, str], wanted: Mapping[str, str], reverted: int | None, now: int, hold_off_s: int
) -> RecordUpdate:
    """What to write when a job wants to replace its record.

    Args:
        before: the texts of the present record.
        wanted: the texts of the new one.
        reverted: when the job turned back to True, from :data:`REVERTED_FILE`; ``None`` if it never did.
        now: UNIX seconds.
        hold_off_s: how long other values stay as they are; 0: not at all.
    """
    if before.get(POSTPONE) == "False" and wanted.get(POSTPONE) == "True":
        reverted = now
    # a turn in the future comes from another clock
    if reverted is None or not reverted <= now < reverted + hold_off_s:
        return RecordUpdate(dict(wanted))
    texts = {key: text for key, text in before.items() if key != POSTPONE}
    held = tuple(key for key in sorted({*texts, *wanted} - {POSTPONE}) if texts.get(key) != wanted.get(key))
    if POSTPONE in wanted:
        texts[POSTPONE] = wanted[POSTPONE]
    return RecordUpdate(texts, held, reverted, reverted + hold_off_s)


CLOCK_SKEW_S = 300
STALE_AFTER_S = 600
MAX_FILE_BYTES = 64

LOCK_FILE = "used_CPU"
NOT_TRUE_OR_FALSE = "not-True-or-False"


def _truth(text: str) -> bool:
    if text not in ("True", "False"):
        raise BadTextError(NOT_TRUE_OR_FALSE)
    return text == "True"


PARSERS: dict[str, Callable[[str], int | bool]] = {
    "used_CPU": feature_keys.integer,
    "last_job_start": feature_keys.integer,
    "first_exp_job_end": feature_keys.integer,
    "last_exp_job_end": feature_keys.integer,
    "last_max_job_end": feature_keys.integer,
    "add_uncom_time": feature_keys.signed_integer,
    "add_final_exp_waste": feature_keys.signed_integer,
    "can_postpone_last_job": _truth,
    "priority_factor": feature_keys.signed_integer,
}
"""The keys, and how their text is read."""

KEYS = tuple(PARSERS)


@dataclass(frozen=True)
class JobStatus:
    """The record of one job, ``None`` where a file is missing or not usable.

    Times are UNIX seconds, the addends CPU seconds. ``unreadable`` names the keys whose files hold something else,
    ``flags`` is each finding as ``key:code``. ``stale``: the record was not renewed for so long that only its absolute
    times are meaningful.
    """

    used_cpu: int | None = None
    last_job_start: int | None = None
    first_exp_job_end: int | None = None
    last_exp_job_end: int | None = None
    last_max_job_end: int | None = None
    add_uncom_time: int | None = None
    add_final_exp_waste: int | None = None
    can_postpone_last_job: bool | None = None
    priority_factor: int | None = None
    unreadable: frozenset[str] = frozenset()
    flags: tuple[str, ...] = ()
    stale: bool = False

    def by_key(self) -> dict[str, int | bool]:
        """The known values, under the names of the files."""
        values = ((key, getattr(self, key.lower())) for key in KEYS)
        return {key: value for key, value in values if value is not None}


@dataclass(frozen=True)
class Stats:
    """What the formulas give at one instant: seconds and CPU seconds; ``None`` is unknown."""

    remaining_time: int | None
    remaining_time_max: int | None
    draining_waste: int | None
    kill_waste: int | None


@dataclass(frozen=True)
class Reckoning:
    """The figures with limits and checks, the plain arithmetic of the draft, and the findings."""

    result: Stats
    formula_without_limits: Stats
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Payload:
    """One payload that a pilot runs: cores, UNIX seconds of start, expected and enforced end, and of the last save."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=False)  # a mapping will do; its values are strict

    cores: Annotated[int, Field(strict=True, ge=1)]
    start: UnixSeconds
    exp_end: UnixSeconds
    max_end: UnixSeconds
    committed_until: UnixSeconds | None = None


def parse(files: Contents, flags: Sequence[str] = (), *, stale: bool = False) -> JobStatus:
    """The record in the files of one directory, all read under one lock."""
    values: dict[str, int | bool] = {}
    wrong: dict[str, str] = {}
    for key, read in PARSERS.items():
        if key in files:
            try:
                values[key.lower()] = read(feature_keys.text_of(files[key]))
            except BadTextError as bad:
                wrong[key] = bad.code
    findings = (*flags, *(f"{key}:{code}" for key, code in wrong.items()), *(["record:stale"] if stale else []))
    return dataclasses.replace(
        JobStatus(unreadable=frozenset(wrong), flags=tuple(sorted(findings)), stale=stale),
        **values,  # type: ignore[arg-type]
    )


def reckon(status: JobStatus, allocated_cpu: int | None, now: int) -> Reckoning:
    """The formulas at ``now`` (UNIX s) for a job with ``allocated_cpu`` processors (``None``: unknown)."""
    flags = list(status.flags)
    # only the absolute times of a stale record are meaningful
    used = None if status.stale else status.used_cpu
    if used is not None and allocated_cpu is not None and used > allocated_cpu:
        flags.append("used_CPU:above-allocated")
        used = allocated_cpu
    uncommitted = _addend(status, "add_uncom_time", used is not None, flags)
    final_waste = _addend(status, "add_final_exp_waste", used is not None, flags)
    elapsed_s = _since(status.last_job_start, now, flags)
    until_first_s = _until(status.first_exp_job_end, now)
    # the plain arithmetic takes what was written: the checks above and below are those of the limited figures
    reported = None if status.stale else status.used_cpu
    plain = Stats(
        _until(status.last_exp_job_end, now),
        _until(status.last_max_job_end, now),
        _draining_waste(allocated_cpu, reported, until_first_s, final_waste),
        _kill_waste(uncommitted, reported, None if status.last_job_start is None else now - status.last_job_start),
    )
    limited = Stats(
        _not_negative(plain.remaining_time),
        _not_negative(plain.remaining_time_max),
        _not_negative(_draining_waste(allocated_cpu, used, _not_negative(until_first_s), final_waste)),
        _not_negative(_kill_waste(uncommitted, used, _not_negative(elapsed_s))),
    )
    flags += _order_and_age(status, now)
    return Reckoning(limited, plain, tuple(sorted(set(flags))))


def _addend(status: JobStatus, key: str, wanted: bool, flags: list[str]) -> int | None:
    """An addend: 0 if its file is missing, unknown if it holds something else."""
    value: int | None = getattr(status, key)
    if value is not None or key in status.unreadable:
        return value
    if wanted:
        flags.append(f"{key}:assumed-0")
    return 0


def _since(start: int | None, now: int, flags: list[str]) -> int | None:
    if start is None:
        return None
    if start > now + CLOCK_SKEW_S:
        flags.append("last_job_start:in-future")
        return None
    return now - start


def _until(end: int | None, now: int) -> int | None:
    return None if end is None else end - now


def _draining_waste(
    allocated: int | None, used: int | None, until_first_s: int | None, final: int | None
) -> int | None:
    if allocated is None or used is None or until_first_s is None or final is None:
        return None
    return (allocated - used) * until_first_s + final


def _kill_waste(uncommitted: int | None, used: int | None, elapsed_s: int | None) -> int | None:
    if uncommitted is None or used is None or elapsed_s is None:
        return None
    return uncommitted + used * elapsed_s


def _not_negative(value: int | None) -> int | None:
    return None if value is None else max(0, value)


def _order_and_age(status: JobStatus, now: int) -> list[str]:
    first, last, longest = status.first_exp_job_end, status.last_exp_job_end, status.last_max_job_end
    flags = []
    if first is not None and last is not None and first > last:
        flags.append("order:first_exp>last_exp")
    if last is not None and longest is not None and last > longest:
        flags.append("order:last_exp>last_max")
    if last is not None and last < now:
        flags.append("last_exp_job_end:passed")
    if longest is not None and longest < now:
        flags.append("last_max_job_end:passed")
    return flags


def record_of(payloads: Sequence[Payload], allocated_cpu: int) -> dict[str, int]:
    """What a pilot publishes about the payloads that it runs, by key; only ``used_CPU`` if there are none.

    With these values the two formulas for waste equal the direct sums over the payloads.
    """
    if not payloads:
        return {LOCK_FILE: 0}
    last_start = max(payload.start for payload in payloads)
    saved = [payload.start if payload.committed_until is None else payload.committed_until for payload in payloads]
    first_end, last_end = min(payload.exp_end for payload in payloads), max(payload.exp_end for payload in payloads)
    busy = sum(payload.cores * (payload.exp_end - first_end) for payload in payloads)
    return {
        LOCK_FILE: sum(payload.cores for payload in payloads),
        "last_job_start": last_start,
        "first_exp_job_end": first_end,
        "last_exp_job_end": last_end,
        "last_max_job_end": max(payload.max_end for payload in payloads),
        "add_uncom_time": sum(
            payload.cores * (last_start - saved_at) for payload, saved_at in zip(payloads, saved, strict=True)
        ),
        "add_final_exp_waste": allocated_cpu * (last_end - first_end) - busy,
    }


def texts_of(values: Mapping[str, int | bool]) -> dict[str, str]:
    """The texts of the files for values by key.

    Raises:
        BadTextError: there is no such key, or its value is not of its kind.
    """
    texts = {}
    for key, value in values.items():
        if key not in PARSERS:
            raise BadTextError(f"{key}: no such key; known are {', '.join(KEYS)}")
        texts[key] = str(value)
        try:
            PARSERS[key](texts[key])
        except BadTextError as bad:
            raise BadTextError(f"{key}: {texts[key][:40]!r} is {bad.code}") from bad
    return texts
