"""The public interface is as promised: see docs/explanation/stability.md."""

from __future__ import annotations

import os
from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.contract.promises import FILE, as_text, differences, promises, read_promises, with_additions

BREAKS = (
    "this breaks what others depend on. Keep the old name or type beside the new one for a minor release and warn (see "
    "docs/explanation/stability.md); where that was done, edit tests/contract/promises.json and say so in CHANGELOG.md"
)
ADDS = "new, and promised from now on: run `make contract`"


def test_the_interface_is_as_promised(database: Database) -> None:
    with database.begin() as connection:
        now = promises(connection)
    before = read_promises()
    if os.environ.get("BROKER_CONTRACT") == "add":
        FILE.write_text(as_text(with_additions(before, now)), encoding="utf-8")
        before = read_promises()
    changes = list(differences(before, now))
    assert [change for change, breaks in changes if breaks] == [], BREAKS
    assert [change for change, breaks in changes if not breaks] == [], ADDS
    assert FILE.read_text(encoding="utf-8") == as_text(before)
    assert {kind: len(entries) > 3 for kind, entries in now.items()} == dict.fromkeys(now, True)


COMMAND = {"broker x": {"--a": {"required": False, "type": "STRING"}}}
CASES: list[tuple[Any, Any, list[tuple[str, bool]]]] = [
    (COMMAND, COMMAND, []),
    (COMMAND, {"broker x": {}}, [("k/broker x/--a is gone", True)]),
    ({}, COMMAND, [("k/broker x is new", False)]),
    (COMMAND, {"broker x": {**COMMAND["broker x"], "--b": {"required": False}}}, [("k/broker x/--b is new", False)]),
    (
        COMMAND,
        {"broker x": {**COMMAND["broker x"], "--b": {"required": True}}},
        [("k/broker x/--b is new and must be given", True)],
    ),
    (
        COMMAND,
        {"broker x": {"--a": {"required": True, "type": "STRING"}}},
        [("k/broker x/--a/required is True, was False", True)],
    ),
    (
        {"broker x": {"--a": {"required": True}}},
        {"broker x": {"--a": {"required": False}}},
        [("k/broker x/--a/required is False, was True", False)],
    ),
    (
        COMMAND,
        {"broker x": {"--a": {"required": False, "type": "INTEGER"}}},
        [("k/broker x/--a/type is 'INTEGER', was 'STRING'", True)],
    ),
]


@pytest.mark.parametrize(("before", "after", "expected"), CASES)
def test_differences_either_break_or_add(before: Any, after: Any, expected: list[tuple[str, bool]]) -> None:
    assert list(differences({"k": before}, {"k": after})) == expected


def test_a_renamed_field_of_an_answer_breaks(database: Database) -> None:
    with database.begin() as connection:
        now = promises(connection)
    fields = now["schemas"]["QueueLine"]
    fields["queue_name"] = fields.pop("queue")
    broken = [change for change, breaks in differences(read_promises(), now) if breaks]
    assert broken == ["schemas/QueueLine/queue is gone"]


def test_additions_never_overwrite_promised_entries() -> None:
    before = {"tables": {"broker.a": {"x": {"type": "text"}, "gone": {"type": "text"}}}}
    after = {"tables": {"broker.a": {"x": {"type": "bigint"}, "y": {"type": "text"}}, "broker.b": {}}}
    assert with_additions(before, after) == {
        "tables": {
            "broker.a": {"x": {"type": "text"}, "gone": {"type": "text"}, "y": {"type": "text"}},
            "broker.b": {},
        }
    }
