"""Map usage and limits of Rucio accounts to rows of ``rucio_local_usage`` and ``rucio_account_usage``.

Source: Rucio client, get_local_account_usage and get_global_account_usage.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from broker.domain.work import DroppedRow
from broker.feeds.model.rows import Key, MappedTable, dropped_row, named, whole_number
from broker.snapshot.raw import BadValueError

LOCAL, GLOBAL = "local", "global"
COLUMNS = ("bytes", "bytes_limit")
_TABLES = {LOCAL: ("rucio_local_usage", "rse"), GLOBAL: ("rucio_account_usage", "rse_expression")}
_LONGEST = 256

Usage = Mapping[str, Iterable[Mapping[str, Any]]]
"""The rows that Rucio returns, by account."""


def quota_table(kind: str, usage: Usage) -> MappedTable:
    """Build the rows of all accounts in ``usage``; the rows of other accounts stay.

    Args:
        kind: ``local``, by RSE, or ``global``, by RSE expression.
        usage: rows by account.
    """
    table, place = _TABLES[kind]
    rows: dict[Key, tuple[Any, ...]] = {}
    dropped_rows: list[DroppedRow] = []
    retained: set[Key] = set()
    for account, entries in usage.items():
        for entry in entries:
            try:
                where = named(entry.get(place), place, _LONGEST)
                rows[(named(account, "account", _LONGEST), where)] = (
                    whole_number(entry.get("bytes"), "bytes"),
                    _limit(entry.get("bytes_limit")),
                )
            except BadValueError as bad:
                dropped_rows.append(dropped_row(f"quota_{kind}", account, bad))
                retained.add((account,))
    return MappedTable(table, ("account", place), COLUMNS, rows, frozenset(retained), dropped_rows=tuple(dropped_rows))


def _limit(value: Any) -> int | None:
    """Bytes that may be used; None without a limit, which Rucio reports as -1 or infinity."""
    if value == -1 or (isinstance(value, float) and math.isinf(value) and value > 0):
        return None
    return whole_number(value, "bytes_limit")
