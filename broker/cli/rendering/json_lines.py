"""JSON lines, for programs."""

from __future__ import annotations

import json
import sys
from typing import TextIO


def print_json(document: object, stream: TextIO | None = None) -> None:
    """Prints one object on one line, in ASCII: an answer as the API gives it, see :func:`broker.api.plain.plain`."""
    from broker.api.plain import plain  # takes long to import

    print(json.dumps(plain(document), allow_nan=False, separators=(", ", ": ")), file=stream or sys.stdout)
