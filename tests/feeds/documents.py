"""Documents for tests of feeds."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from broker.fetching.documents import Document, parse

NOW = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)


def document(content: Any, name: str = "queues") -> Document:
    """The document parsed from the bytes of its content."""
    return parse(json.dumps(content).encode(), name)


def raw(text: str, name: str = "queues") -> Document:
    return parse(text.encode(), name)


def codes(dropped_rows: tuple[Any, ...]) -> dict[str, str]:
    """The codes of dropped rows, by identifier."""
    return {row.identifier: row.code for row in dropped_rows}
