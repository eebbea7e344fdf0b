"""What mapping a document gives: rows of one table by key, those that stay as they are, and what was left out."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from broker.domain.work import DroppedRow
from broker.fetching.documents import DocumentRefused
from broker.snapshot.readings import BadValueError, number, text

Key = tuple[str, ...]

#: Clocks of other systems may be ahead of ours by this much.
CLOCK_SKEW = timedelta(minutes=5)
#: Codes of what is dropped because it is of no use here, though nothing is wrong with it.
OF_NO_USE = frozenset({"unknown_endpoint", "unknown_site", "too_old"})
_LARGEST = 2**62
_IDENTIFIER_CHARACTERS = 80


@dataclass(frozen=True)
class MappedTable:
    """The rows that a table is to have.

    Attributes:
        table: its name.
        key: the columns of the key.
        columns: the other columns, in the order of the values in ``rows``.
        rows: values by key.
        kept: keys, or first parts of keys, of records that were left out: what the table says of them stays.
        kept_where: a column and those of its values whose rows stay too.
        about: beginnings of keys; rows of other keys stay. None: it is about all rows.
        dropped_rows: what was dropped, and why.
    """

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    rows: Mapping[Key, tuple[Any, ...]]
    kept: frozenset[Key] = frozenset()
    kept_where: tuple[str, frozenset[str]] = ("", frozenset())
    dropped_rows: tuple[DroppedRow, ...] = field(default=())
    about: frozenset[Key] | None = None

    def keeps(self, key: Key, values: tuple[Any, ...]) -> bool:
        """Whether a row that the document does not give stays, as what it says of it cannot be used."""
        if key in self.kept or key[:1] in self.kept:
            return True
        if self.about is not None and not any(key[:length] in self.about for length in range(1, len(key))):
            return True
        column, kept_values = self.kept_where
        return bool(kept_values) and values[self.columns.index(column)] in kept_values


def reasons(dropped_rows: Iterable[DroppedRow]) -> dict[str, int]:
    """How many were left out, by code."""
    return dict(sorted(Counter(one.code for one in dropped_rows).items()))


def dropped_row(document: str, identifier: object, bad: BadValueError) -> DroppedRow:
    """The note of a record that cannot be used."""
    return DroppedRow(document, str(identifier)[:_IDENTIFIER_CHARACTERS], bad.code, str(bad))


def named(value: Any, field_name: str, longest: int) -> str:
    """A name as the tables take it: text of 1 to ``longest`` characters, none of them a control character.

    Raises:
        BadValueError: it is none (``missing``, ``wrong_type``, ``not_text``, ``control_character``, ``too_long``).
    """
    found = text(value, field_name)
    if not found:
        raise BadValueError("missing", field_name, value)
    if len(found) > longest:
        raise BadValueError("too_long", field_name, found)
    if not found.isprintable() and any(unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp") for one in found):
        raise BadValueError("control_character", field_name, found)
    return found


def within(value: Any, field_name: str, lowest: float, highest: float) -> float:
    """A finite number from ``lowest`` to ``highest``, NaN for NULL.

    Raises:
        BadValueError: it is none (``wrong_type``, ``not_finite``), below 0 where it may not be (``negative``), or
            ``out_of_range``.
    """
    found = number(value, field_name)
    if found < lowest:
        raise BadValueError("negative" if lowest == 0 else "out_of_range", field_name, value)
    if found > highest:
        raise BadValueError("out_of_range", field_name, value)
    return found


def whole_number(value: Any, field_name: str, lowest: float = 0, highest: float = _LARGEST) -> int | None:
    """A number in a range, rounded; None for NULL.

    Raises:
        BadValueError: as :func:`within`.
    """
    found = within(value, field_name, lowest, highest)
    return None if math.isnan(found) else round(found)


def moment(value: Any, field_name: str, form: str, now: datetime) -> datetime:
    """An instant in text of the form ``form``, UTC, not in the future (aware).

    Raises:
        BadValueError: it is none (``missing``, ``wrong_type``, ``bad_time``), or in the ``future`` by more than clocks
            may differ.
    """
    written = text(value, field_name)
    if not written:
        raise BadValueError("missing", field_name, value)
    try:
        found = datetime.strptime(written[:40], form).replace(tzinfo=UTC)
    except ValueError as error:
        raise BadValueError("bad_time", field_name, written) from error
    if found > now + CLOCK_SKEW:
        raise BadValueError("future", field_name, written)
    return found


def check_dropped_rows(document: str, found: Iterable[DroppedRow], records: int, most: float) -> None:
    """Refuse a document of which too much is unusable.

    Args:
        document: its name.
        found: what was left out of it.
        records: how many it has.
        most: the share of the records that may be left out for a fault.

    Raises:
        DocumentRefused: with the code ``too_many_left_out``.
    """
    left = len({one.identifier for one in found if one.source == document and one.code not in OF_NO_USE})
    if left > most * records:
        raise DocumentRefused(
            "too_many_left_out",
            f"{left} of {records} records cannot be used, more than {most:.0%}",
            document,
            "see the reasons in `broker import log`; the last good one stays",
        )


def check_shrunk(document: str, records: int, before: int | None, most: float) -> None:
    """Refuse a document that has lost too much since the last good one.

    Args:
        document: its name.
        records: that it has now.
        before: that the last good one had; None when there was none.
        most: the share of them that may be gone.

    Raises:
        DocumentRefused: with the code ``shrunk``.
    """
    if before and records < before * (1.0 - most):
        raise DocumentRefused(
            "shrunk",
            f"{records} records after {before}, less than {1.0 - most:.0%}",
            document,
            "see its source; if it is right, import it once with --allow-shrink",
        )
