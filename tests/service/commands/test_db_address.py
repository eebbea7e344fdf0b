"""Addresses on the command line: no password is repeated, and no server is started to report a missing one."""

from __future__ import annotations

import logging
from io import StringIO
from pathlib import Path

import pytest

from agents.service import json_log
from broker.cli.main import main
from broker.store.connection.embedded import EmbeddedServer

SECRET = "s3cret-w0rd"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(words)
    output = capsys.readouterr()
    return int(str(end.value.code)), output.out, output.err


@pytest.mark.parametrize(
    "words",
    [
        ("--db", f"postgresql://me:{SECRET}@localhost:1/d", "db", "url"),
        ("--db", f"postgresql://me@localhost:1/d?password={SECRET}", "agents"),
        ("--db", f"postgresql://me:x@{SECRET}@localhost:1/d", "rules", "--task", "1"),
        ("db", "url", f"postgresql://me:{SECRET}@localhost:1/d"),
        ("db", "url", f"--database=postgresql://me:{SECRET}@localhost:1/d"),
        ("db", "url", f"--db=mysql://me:{SECRET}@localhost:1/d"),
    ],
)
def test_no_message_repeats_a_password(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], broker_home: Path
) -> None:
    status, _, errors = run(capsys, *words)
    assert status in (1, 2)
    assert errors
    assert SECRET not in errors


def test_the_address_of_a_missing_database_exits_with_4(capsys: pytest.CaptureFixture[str], broker_home: Path) -> None:
    status, out, errors = run(capsys, "db", "url")
    assert (status, out) == (4, "")
    assert "there is no database yet" in errors
    assert "broker db init" in errors
    assert not broker_home.exists()


@pytest.mark.slow
def test_the_address_of_an_existing_database(capsys: pytest.CaptureFixture[str], broker_home: Path) -> None:
    assert run(capsys, "db", "init")[0] == 0
    status, out, _ = run(capsys, "db", "url")
    assert (status, out.startswith("postgresql://")) == (0, True)
    assert EmbeddedServer(broker_home).running


def test_the_log_hides_passwords_too() -> None:
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(json_log.JsonFormatter())
    fields = {"error": f"postgresql://me:{SECRET}@h/d refused", "nested": [f"password={SECRET}"]}
    record = logging.makeLogRecord({"msg": f"postgresql://me:{SECRET}@h/d", "levelno": 40, "fields": fields})
    handler.emit(record)
    assert SECRET not in stream.getvalue()
    assert "refused" in stream.getvalue()
