"""Findings of `broker doctor` on the copies in mode ``mirrored``."""

from __future__ import annotations

from datetime import datetime, timedelta

from broker.alongside.statements.copy_records import CopyRecord, read_records
from broker.service.answers.doctor import Finding, Level
from broker.store.connection.database import Database

LATE = timedelta(minutes=10)
"""The plug-in does not decide on a copy of the grid that is half this old."""
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
    findings = [_of_part(part, [record for record in records if record.part == part], now) for part in _parts(records)]
    for record in records:
        if record.failures:
            findings.append(Finding("mirror", "problem", f"{record.name}: {_failing(record, now)}", _WATCHDOG))
        if record.lacking:
            findings.append(Finding("missing", "note", f"{record.name}: {', '.join(record.lacking)}", "read as NULL"))
    return findings


def _parts(records: list[CopyRecord]) -> list[str]:
    return list(dict.fromkeys(record.part for record in records))


def _of_part(part: str, records: list[CopyRecord], now: datetime) -> Finding:
    ages = [now - record.read_at for record in records if record.read_at is not None]
    rows, seconds = sum(record.row_count for record in records), sum(record.read_s or 0.0 for record in records)
    if not ages:
        return Finding("mirror", "problem", f"{part}: none of its {len(records)} tables was copied", _WATCHDOG)
    late = max(ages) > (LATE_WORK if part == "work" else LATE)
    level: Level = "problem" if late else "ok"
    text = f"{part}: {len(ages)} tables, {rows} rows in {seconds:.1f} s, the oldest {_minutes(max(ages))} old"
    return Finding("mirror", level, text, _WATCHDOG if late else "")


def _failing(record: CopyRecord, now: datetime) -> str:
    age = "never copied" if record.read_at is None else f"the copy is {_minutes(now - record.read_at)} old"
    return f"failed {record.failures} times, {age}: {record.error}"


def _minutes(age: timedelta) -> str:
    return f"{age.total_seconds() / 60:.0f} min"
