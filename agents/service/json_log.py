"""Structured logs: one JSON object a line, whatever the message contains."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any, TextIO

from broker.redaction import redact

TEXT_LIMIT = 4000
"""Maximum length of one text in a line, in characters."""


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of ASCII JSON.

    Control characters, quotes and everything outside ASCII are escaped by JSON itself, so that no name can forge a
    line or steer a terminal. The fields of ``extra={"fields": {...}}`` become fields of the object.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        return as_json(line_of(record))


def line_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a line, bounded in length and without passwords."""
    line: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": _bounded(record.getMessage()),
    }
    for name, value in getattr(record, "fields", {}).items():
        line.setdefault(str(name), _bounded(value))
    if record.exc_info is not None and record.exc_info[0] is not None:
        line["traceback"] = redact(logging.Formatter().formatException(record.exc_info))[-TEXT_LIMIT:]
    return line


def as_json(line: dict[str, Any]) -> str:
    """Return a line as ASCII JSON."""
    return json.dumps(line, ensure_ascii=True, default=str).replace("\x7f", "\\u007f")


def _redacted(value: object) -> object:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {name: _redacted(item) for name, item in value.items()}
    return [_redacted(item) for item in value] if isinstance(value, list | tuple) else value


def _bounded(value: object) -> object:
    value = _redacted(value)
    if isinstance(value, str) and len(value) > TEXT_LIMIT:
        return f"{value[:TEXT_LIMIT]}... ({len(value)} characters)"
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return value if len(rendered := json.dumps(value, default=str)) <= TEXT_LIMIT else _bounded(rendered)


class StructuredFormatter(logging.Formatter):
    """Formats a record by a renderer of structlog: JSON for programs, coloured lines for people.

    Args:
        terminal: whether the output is for people on a terminal.
    """

    def __init__(self, terminal: bool) -> None:
        import structlog  # of the extra ``api``

        super().__init__()
        self._terminal = terminal
        self._render: Any = structlog.processors.JSONRenderer(serializer=_json_line)
        if terminal:
            plain = structlog.dev.plain_traceback
            self._render = structlog.dev.ConsoleRenderer(colors=True, exception_formatter=plain)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end; on a terminal a traceback follows it."""
        line = line_of(record)
        return str(self._render(None, record.levelname.lower(), _for_people(line) if self._terminal else line))


def _json_line(line: dict[str, Any], **options: Any) -> str:
    return as_json(line)


def _for_people(line: dict[str, Any]) -> dict[str, Any]:
    """Escape control characters and marks that reorder text, since names come from untrusted sources."""
    escaped = {name: _escaped(value) for name, value in line.items() if name not in ("time", "traceback")}
    escaped["timestamp"] = line["time"]
    if "traceback" in line:
        escaped["exception"] = line["traceback"]
    return escaped


def _escaped(value: object) -> object:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if text.isascii() and text.isprintable():
        return value
    return "".join(
        character if unicodedata.category(character)[0] != "C" else f"\\u{ord(character):04x}" for character in text
    )


class RateLimit(logging.Filter):
    """Lets each event through once per period and counts what it suppressed.

    A database that is unavailable for an hour must not fill the disk. Errors and warnings of the same logger, event and
    agent pass once in ``period_s``; the next one to pass carries ``held_back``.
    """

    def __init__(self, period_s: float = 10.0, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Limit each event to one in ``period_s`` seconds by the clock ``monotonic``."""
        super().__init__()
        self._period_s = period_s
        self._monotonic = monotonic
        self._seen: dict[tuple[str, str, str], tuple[float, int]] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record may be written."""
        if record.levelno < logging.WARNING:
            return True
        fields = getattr(record, "fields", {})
        # the lease of an agent has the agent's name
        key = (record.name, str(record.msg)[:200], str(fields.get("agent") or fields.get("lease") or ""))
        now = self._monotonic()
        with self._lock:
            last, held_back = self._seen.get(key, (now - self._period_s, 0))
            if now - last < self._period_s:
                self._seen[key] = (last, held_back + 1)
                return False
            self._seen[key] = (now, 0)
        if held_back:
            record.__dict__["fields"] = {**fields, "held_back": held_back}
        return True


def _formatter(terminal: bool) -> logging.Formatter:
    if find_spec("structlog") is None:
        return JsonFormatter()
    return StructuredFormatter(terminal)


def configure(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Send the logs of the service to ``stream`` (default: stderr), rate limited.

    The output is JSON; on a terminal it is formatted for people if structlog is installed (extra ``api``).
    """
    target = stream or sys.stderr
    handler = logging.StreamHandler(target)
    handler.setFormatter(_formatter(target.isatty()))
    handler.addFilter(RateLimit())
    for name in ("agents", "broker"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
    scheduler = logging.getLogger("apscheduler")
    scheduler.handlers = [handler]
    scheduler.setLevel(logging.WARNING)
    scheduler.propagate = False
