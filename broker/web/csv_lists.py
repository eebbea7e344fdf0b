"""A list of a page as CSV: a line an item, a column a field, fields of fields with their names joined by dots."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.responses import Response

#: What a spreadsheet would take for a formula: such a text gets an apostrophe before it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_response(rows: Sequence[Mapping[str, Any]], title: str) -> Response:
    """Return the list as a CSV attachment named after its page."""
    name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "list"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.csv"',
        "Cache-Control": "private, no-store",
        "Vary": "Accept, Authorization, Cookie",
    }
    return Response(csv_text(rows), media_type="text/csv; charset=utf-8", headers=headers)


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The lines below their heading; a list within a line stands as its values with spaces between them. Pure."""
    flat = [dict(_flattened(row)) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row))
    written = io.StringIO()
    writer = csv.DictWriter(written, columns, restval="", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(flat)
    return written.getvalue()


def _flattened(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, one in value.items():
        if isinstance(one, Mapping):
            yield from _flattened(one, f"{before}{name}.")
        else:
            yield f"{before}{name}", _cell(one)


def _cell(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return _cell(" ".join(str(one) for one in value))
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return "" if value is None else value
