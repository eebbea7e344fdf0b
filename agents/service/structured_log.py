"""Logs rendered by structlog: JSON lines for programs, coloured lines for people. It comes with the extra ``api``."""

from __future__ import annotations

import json
import logging
import unicodedata
from typing import Any

import structlog

from agents.service.json_log import as_json, line_of


class StructuredFormatter(logging.Formatter):
    """Formats a record by a renderer of structlog.

    Args:
        terminal: whether people read it.
    """

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal
        self._render: Any = structlog.processors.JSONRenderer(serializer=_json)
        if terminal:
            plain = structlog.dev.plain_traceback
            self._render = structlog.dev.ConsoleRenderer(colors=True, exception_formatter=plain)

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end; a traceback follows it on a terminal."""
        line = line_of(record)
        return str(self._render(None, record.levelname.lower(), _for_people(line) if self._terminal else line))


def _json(line: dict[str, Any], **options: Any) -> str:
    return as_json(line)


def _for_people(line: dict[str, Any]) -> dict[str, Any]:
    """Names come from strangers: control characters and marks that reorder text are shown as escapes."""
    shown = {name: _escaped(value) for name, value in line.items() if name not in ("time", "traceback")}
    shown["timestamp"] = line["time"]
    if "traceback" in line:
        shown["exception"] = line["traceback"]
    return shown


def _escaped(value: object) -> object:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if text.isascii() and text.isprintable():
        return value
    return "".join(one if unicodedata.category(one)[0] != "C" else f"\\u{ord(one):04x}" for one in text)
