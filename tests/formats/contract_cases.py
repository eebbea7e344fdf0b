"""Reads the cases in ``tests/contract``: examples as data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "contract"


def cases(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def contents(files: dict[str, str | None] | None) -> dict[str, bytes]:
    return {name: text.encode() for name, text in (files or {}).items() if text is not None}
