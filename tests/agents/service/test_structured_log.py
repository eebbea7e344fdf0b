"""Logs through structlog, and spans of cycles."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agents.service import cycle, json_log
from agents.service.json_log import StructuredFormatter

EVIL = "a\nforged line\x1b[31m \u202e"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def log_text(stream: io.StringIO) -> str:
    logger = logging.getLogger("broker.of.a.test")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(StructuredFormatter(stream.isatty()))
    logger.handlers, logger.propagate = [handler], False
    logger.warning("looked at %s", EVIL, extra={"fields": {"queue": EVIL, "url": "postgresql://u:secret@h/d"}})
    return stream.getvalue()


def test_json_in_a_pipe_is_the_same_as_without_structlog() -> None:
    text = log_text(io.StringIO())
    line = json.loads(text)
    assert text.count("\n") == 1 and text.isascii()
    assert line["event"] == f"looked at {EVIL}" and line["level"] == "warning" and "secret" not in text


def test_a_terminal_gets_one_line_in_which_names_steer_nothing() -> None:
    text = log_text(Terminal())
    assert text.count("\n") == 1 and "secret" not in text and "forged" in text
    assert "\x1b[31m \u202e" not in text and "\u202e" not in text


@pytest.fixture
def span_exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(cycle, "_tracer", lambda: provider.get_tracer("test"))
    yield exporter
    provider.shutdown()


def test_each_cycle_and_each_stage_has_a_span(span_exporter: InMemorySpanExporter) -> None:
    cycle.note_cycle("production_job", "done", {"load_s": 1.0, "decide_s": 2.0, "total_s": 4.0}, 10_000_000_000, 7)
    spans = {span.name: span for span in span_exporter.get_finished_spans()}
    whole = spans["cycle production_job"]
    assert (whole.start_time, whole.end_time) == (6_000_000_000, 10_000_000_000)
    assert dict(whole.attributes or {}) == {"agent": "production_job", "outcome": "done", "run": 7}
    assert (spans["decide"].start_time, spans["decide"].end_time) == (7_000_000_000, 9_000_000_000)
    assert spans["load"].parent is not None and spans["load"].parent.span_id == whole.context.span_id


def test_nothing_is_traced_without_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in cycle.ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    cycle._tracer.cache_clear()
    assert cycle._tracer() is None
    cycle.note_cycle("x", "done", {"total_s": 1.0}, 1)


def test_without_structlog_a_service_logs_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_log, "find_spec", lambda name: None)
    assert isinstance(json_log._formatter(False), json_log.JsonFormatter)
