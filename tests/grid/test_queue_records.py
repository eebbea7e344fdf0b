"""Queue records: rows are parsed once until one of them changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from broker.grid.answers import queue_records as records
from broker.grid.answers.queue_records import QueueRecords, queue_records
from broker.store.connection.database import Database
from broker.store.query_context import QueryContext
from tests.store.summaries.test_decision_summaries import NOW

_WRITE = sa.text("""
    INSERT INTO doma_panda.schedconfig_json (panda_queue, data) VALUES (:name, CAST(:data AS json))
    ON CONFLICT (panda_queue) DO UPDATE SET data = excluded.data""")


def write(database: Database, name: str, document: Any) -> None:
    with database.begin() as connection:
        connection.execute(_WRITE, {"name": name, "data": json.dumps(document)})


@pytest.fixture
def read(database: Database) -> Callable[[], QueueRecords]:
    def ask() -> QueueRecords:
        with database.read_snapshot() as connection:
            query = QueryContext(connection, database.names, NOW)
            records_read = queue_records(query)
            assert queue_records(query) is records_read
            return records_read

    return ask


def test_rows_are_parsed_again_only_after_a_change(
    database: Database, read: Callable[[], QueueRecords], monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed_texts: list[str | None] = []
    parse = records.json_document

    def parse_and_record(text: str | None) -> dict[str, object]:
        parsed_texts.append(text)
        return parse(text)

    monkeypatch.setattr(records, "json_document", parse_and_record)
    write(database, "A", {"nickname": "A_Q", "status": "online", "corepower": 12.5, "other": 1})
    write(database, "B", ["no object"])
    first = read()
    assert [record.panda_queue for record in first.rows] == ["A", "B"]
    assert first.rows[0].document["status"] == "online" and "other" not in first.rows[0].document
    assert first.rows[1].document["status"] is None
    assert {name: record.corepower for name, record in first.about.items()} == {"A_Q": 12.5}
    assert read() is first and len(parsed_texts) == 2
    write(database, "A", {"nickname": "A_Q", "status": "offline", "corepower": 12.5})
    assert read().rows[0].document["status"] == "offline" and len(parsed_texts) == 4
    write(database, "C", {})
    assert len(read().rows) == 3
