"""A page's list as CSV: one line an item, one column a field; names of nested fields are joined by dots."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.responses import Response

#: A spreadsheet would read text that starts with these as a formula: it gets an apostrophe in front.
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
    """Return the rows below their heading; a nested list becomes its values separated by spaces. Pure."""
    flat = [dict(_flattened(row)) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, restval="", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(flat)
    return stream.getvalue()


def _flattened(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from _flattened(item, f"{before}{name}.")
        else:
            yield f"{before}{name}", _cell(item)


def _cell(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return _cell(" ".join(str(item) for item in value))
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return "" if value is None else value
