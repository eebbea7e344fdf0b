"""JSON lines, for programs."""

from __future__ import annotations

import json
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TextIO


def print_json(document: object, stream: TextIO | None = None) -> None:
    """Prints one object on one line, in ASCII.

    Raises:
        ValueError: a number is not finite.
    """
    print(json.dumps(document, default=_plain, allow_nan=False, separators=(", ", ": ")), file=stream or sys.stdout)


def _plain(value: object) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, Path):
        return str(value)
    to_list = getattr(value, "tolist", None)  # numpy scalars and arrays
    if to_list is not None:
        return to_list()
    if isinstance(value, set | frozenset):
        return sorted(value)
    dump = getattr(value, "model_dump", None)  # answers of the query layer
    if dump is not None:
        return dump(mode="json")
    raise TypeError(f"{type(value).__name__} is not JSON")
