"""The source ``quota``: storage quotas of accounts, and endpoints that are full for them, from Rucio."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from broker.domain.analysis import QuotaLine
from broker.domain.work import DroppedRow
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import BadValueError, RawSource, name, number
from broker.snapshot.source import SourceLimit, TableRead

#: Name in ``summary_refreshes`` under which a copy of the quotas records its time; without it they have no age.
QUOTA_REFRESH = "rucio_usage"
_ACCOUNTS, _LOCAL = "rucio_account_usage", "rucio_local_usage"


@dataclass(frozen=True)
class Quotas:
    """Lines by account, and the endpoints whose limit the account has reached."""

    lines: Mapping[str, tuple[QuotaLine, ...]]
    full_endpoints: Mapping[str, frozenset[str]]


class Quota(GridSource[Quotas]):
    """Quotas of Rucio; an account without a row has no limit."""

    name = "quota"
    reads = (
        TableRead(f"broker.{_ACCOUNTS}", ("account", "rse_expression", "bytes", "bytes_limit"), stored_as=_ACCOUNTS),
        TableRead(f"broker.{_LOCAL}", ("account", "rse", "bytes", "bytes_limit"), stored_as=_LOCAL),
    )
    limit = SourceLimit(max_age_s=86_400.0)
    aged_by = QUOTA_REFRESH
    # quotas come from another system whose failure must not stop the brokerage: their policy says what to do
    may_fail = True
    for_analysis = True

    def build(self, raw: RawSource, draft: Draft) -> Quotas:
        """Build the lines of all accounts."""
        return Quotas(*_quotas(raw, draft.dropped_rows))


QUOTA = Quota()


def _quotas(
    source: RawSource, dropped_rows: list[DroppedRow]
) -> tuple[dict[str, tuple[QuotaLine, ...]], dict[str, frozenset[str]]]:
    lines: dict[str, tuple[QuotaLine, ...]] = {}
    for account, line in _lines(source, _ACCOUNTS, "rse_expression", dropped_rows):
        lines[account] = (*lines.get(account, ()), line)
    full: dict[str, frozenset[str]] = {}
    for account, line in _lines(source, _LOCAL, "rse", dropped_rows):
        if line.used_bytes >= line.limit_bytes > 0:
            full[account] = full.get(account, frozenset()) | {line.place}
    return lines, full


def _lines(
    source: RawSource, table: str, place: str, dropped_rows: list[DroppedRow]
) -> Iterator[tuple[str, QuotaLine]]:
    for row in source.rows(table).records():
        try:
            account, where = name(row["account"], "account"), name(row[place], place)
            used, limit = number(row["bytes"], "bytes"), number(row["bytes_limit"], "bytes_limit")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("quota", str(row["account"])[:80], bad.code, str(bad)))
            continue
        yield account, QuotaLine(where, 0.0 if math.isnan(used) else used, 0.0 if math.isnan(limit) else limit)
