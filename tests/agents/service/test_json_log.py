from __future__ import annotations

import io
import json
import logging
import sys

import pytest

from agents.service import json_log
from agents.service.json_log import TEXT_LIMIT, JsonFormatter, RateLimit


def record(message: str, severity: int = logging.INFO, **fields: object) -> logging.LogRecord:
    log_record = logging.LogRecord("agents.test", severity, __file__, 1, message, None, None)
    if fields:
        log_record.__dict__["fields"] = fields
    return log_record


@pytest.mark.parametrize(
    "hostile",
    ['a"b', "two\nlines\r\n", "\x1b[31mred\x07", "nul\0", "\u202ebidi", "line\u2028end", "\x7f", "\ud800", "%s"],
)
def test_no_name_can_forge_a_line_or_steer_a_terminal(hostile: str) -> None:
    line = JsonFormatter().format(record("event " + hostile, task=hostile))
    assert all(" " <= character <= "~" for character in line)
    document = json.loads(line)
    assert document["event"] == "event " + hostile
    assert document["task"] == hostile


def test_length_is_bounded() -> None:
    line = JsonFormatter().format(record("x" * 1_000_000, name="y" * 1_000_000, many=["z" * 1000] * 1000))
    assert len(line) < 4 * TEXT_LIMIT
    assert "1000000 characters" in json.loads(line)["event"]


def test_fields_do_not_replace_the_keys_of_every_line() -> None:
    document = json.loads(JsonFormatter().format(record("event", level="forged", time="never", task=1)))
    assert document["level"] == "info"
    assert document["time"] != "never"
    assert document["task"] == 1


def test_a_traceback_is_one_field() -> None:
    try:
        raise ValueError("bad\nname")
    except ValueError:
        log_record = record("event")
        log_record.exc_info = sys.exc_info()
    line = JsonFormatter().format(log_record)
    assert "\n" not in line
    assert "ValueError" in json.loads(line)["traceback"]


def test_repeated_errors_pass_once_a_period_and_are_counted() -> None:
    now = [0.0]
    limit = RateLimit(10.0, lambda: now[0])

    def passed_fields() -> dict[str, object] | None:
        log_record = record("no database", logging.ERROR, agent="a")
        return log_record.__dict__["fields"] if limit.filter(log_record) else None

    assert passed_fields() == {"agent": "a"}
    now[0] = 9.99
    assert passed_fields() is None
    assert passed_fields() is None
    now[0] = 10.0
    assert passed_fields() == {"agent": "a", "held_back": 2}
    assert limit.filter(record("another", logging.ERROR))
    assert limit.filter(record("no database", logging.ERROR, agent="b"))
    assert limit.filter(record("no database", logging.ERROR, lease="c"))
    assert limit.filter(record("no database", logging.ERROR))
    assert all(limit.filter(record("information")) for _ in range(3))


def test_configured_loggers_write_one_object_a_line() -> None:
    stream = io.StringIO()
    json_log.configure(stream)
    logging.getLogger("agents.anything").info("first", extra={"fields": {"task": 7}})
    logging.getLogger("broker.anything").error("second")
    logging.getLogger("apscheduler.scheduler").info("not shown")
    logging.getLogger("apscheduler.scheduler").warning("third")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["event"], line.get("task")) for line in lines] == [("first", 7), ("second", None), ("third", None)]
