"""Logs of the API: through structlog, JSON lines in a pipe, colours on a terminal."""

from __future__ import annotations

import logging
from typing import TextIO

from agents.service import json_log


def configure(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Send the logs of the API to ``stream`` (default: stderr)."""
    json_log.configure(stream, level)
    warnings = logging.getLogger("uvicorn")
    warnings.handlers = logging.getLogger("broker").handlers
    warnings.setLevel(logging.WARNING)
    warnings.propagate = False
