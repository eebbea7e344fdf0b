"""What `broker doctor` says of the copies in mode ``mirrored``."""

from __future__ import annotations

from datetime import datetime, timedelta

from broker.alongside.statements.copy_records import CopyRecord, read_records
from broker.service.answers.doctor import Finding, Level
from broker.store.connection.database import Database

LATE = timedelta(minutes=10)
"""The plug-in does not decide on a copy of the grid that is half as old."""
LATE_WORK = timedelta(minutes=40)
_WATCHDOG = "see the log of JEDI's watchdog, and [watchdog] of panda_jedi.cfg for gridbroker_jedi.mirror"


def mirror_findings(database: Database, now: datetime) -> list[Finding]:
    """Copies that are late or fail, and columns that PanDA's tables lack.

    Args:
        database: in mode ``mirrored``.
        now: the time (aware).
    """
    with database.read_snapshot() as connection:
        records = read_records(connection)
    if not records:
        return [Finding("mirror", "problem", "nothing was copied from PanDA's database yet", _WATCHDOG)]
    found = [_of_part(part, [one for one in records if one.part == part], now) for part in _parts(records)]
    for one in records:
        if one.failures:
            found.append(Finding("mirror", "problem", f"{one.name}: {_failing(one, now)}", _WATCHDOG))
        if one.lacking:
            found.append(Finding("missing", "note", f"{one.name}: {', '.join(one.lacking)}", "read as NULL"))
    return found


def _parts(records: list[CopyRecord]) -> list[str]:
    return list(dict.fromkeys(one.part for one in records))


def _of_part(part: str, records: list[CopyRecord], now: datetime) -> Finding:
    ages = [now - one.read_at for one in records if one.read_at is not None]
    rows, seconds = sum(one.row_count for one in records), sum(one.read_s or 0.0 for one in records)
    if not ages:
        return Finding("mirror", "problem", f"{part}: none of its {len(records)} tables was copied", _WATCHDOG)
    late = max(ages) > (LATE_WORK if part == "work" else LATE)
    level: Level = "problem" if late else "ok"
    text = f"{part}: {len(ages)} tables, {rows} rows in {seconds:.1f} s, the oldest {_minutes(max(ages))} old"
    return Finding("mirror", level, text, _WATCHDOG if late else "")


def _failing(one: CopyRecord, now: datetime) -> str:
    age = "never copied" if one.read_at is None else f"the copy is {_minutes(now - one.read_at)} old"
    return f"failed {one.failures} times, {age}: {one.error}"


def _minutes(age: timedelta) -> str:
    return f"{age.total_seconds() / 60:.0f} min"
