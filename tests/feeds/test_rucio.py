"""Conversion of Rucio's answers to rows: space, replicas, quotas; and the times of repeated requests."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from broker.feeds.model.rucio.answers import (
    Needed,
    Pace,
    RawAnswer,
    Replica,
    RequestRecord,
    after_answer,
    after_failure,
    due,
    read_answer,
)
from broker.feeds.model.rucio.quotas import quota_table
from broker.feeds.model.rucio.space import GB, space_table, usage_of_rows
from broker.simulation.model.demo.grid_documents import GridSize, rse_usage
from tests.feeds.documents import NOW, codes, document, raw

DID = ("mc23", "data")
STAMP = "2026-08-01 11:50:00"
WHEN = (NOW - timedelta(minutes=10)).replace(tzinfo=None)


def test_space_is_in_gigabytes_of_2_to_the_30() -> None:
    usage = {
        "storage": {"used": 10 * GB, "free": 5 * GB + GB - 1, "updated_at": STAMP},
        "expired": {"used": 3 * GB},
        "min_free_space": {"used": 2 * GB - 1},
    }
    table = space_table(document({"E": usage, "F": {}}, "space"), ("E", "F"), NOW)
    assert dict(table.rows) == {("E",): (15, 5, 10, 3, 1, 0, WHEN), ("F",): (None, None, None, 0, 0, 0, None)}


@pytest.mark.parametrize(
    ("usage", "code"),
    [
        ({"storage": {"used": -1, "free": 1, "updated_at": STAMP}}, "negative"),
        ({"storage": {"used": 0, "free": 0, "updated_at": STAMP}}, ""),
        ({"storage": {"used": 1, "free": -5, "updated_at": STAMP}}, "negative"),
        ({"storage": {"used": "x", "free": 1, "updated_at": STAMP}}, "wrong_type"),
        ({"storage": 5}, "wrong_type"),
        ({"storage": {"used": 1, "free": 1, "updated_at": "2026-08-01 12:05:00"}}, ""),
        ({"storage": {"used": 1, "free": 1, "updated_at": "2026-08-01 12:05:01"}}, "future"),
        ({"storage": {"used": 1, "free": 1}}, "missing"),
        ({"expired": {"used": -1}}, "negative"),
        (7, "wrong_type"),
    ],
)
def test_invalid_space_is_dropped(usage: Any, code: str) -> None:
    table = space_table(document({"E": usage}, "space"), ("E",), NOW)
    assert codes(table.dropped_rows) == ({"E": code} if code else {})


def test_unknown_and_repeated_endpoints_are_dropped() -> None:
    table = space_table(document({"E": {}}, "space"), (), NOW)
    assert codes(table.dropped_rows) == {"E": "unknown_endpoint"}
    assert codes(space_table(raw('{"E": {}, "E": {}}', "space"), ("E",), NOW).dropped_rows) == {"E": "duplicate_name"}


def test_rows_of_the_client_give_the_same_as_the_dump() -> None:
    rows = [
        {"source": "storage", "used": GB, "free": 2 * GB, "total": 3 * GB, "updated_at": NOW - timedelta(minutes=10)},
        {"source": "rucio", "used": GB, "free": None, "updated_at": None},
        {"source": "unavailable", "used": GB, "free": None, "updated_at": None},
    ]
    table = space_table(document({"E": usage_of_rows(rows)}, "space"), ("E",), NOW)
    assert table.rows[("E",)] == (3, 2, 1, 0, 0, 1, WHEN)


def test_the_synthetic_dump() -> None:
    size = GridSize(4)
    table = space_table(document(rse_usage(size, NOW)), list(rse_usage(size, NOW)), NOW)
    assert len(table.rows) == 6 and table.dropped_rows == ()


def row(rse: str, available: Any = 10, total: Any = 10, **columns: Any) -> dict[str, Any]:
    return {"rse": rse, "available_length": available, "length": total, "available_bytes": 5, "bytes": 6, **columns}


def test_an_answer_about_a_dataset() -> None:
    metadata = {"did_type": "DATASET", "length": 10, "is_open": False}
    raw_answer = RawAnswer(
        DID,
        metadata,
        (row("DISK", state="A"), row("TAPE", 4)),
        virtual=({"vp": True, "site": "S"}, {"vp": False}),
        rules=("ALL",),
    )
    answer = read_answer(raw_answer, {"TAPE": True, "DISK": False})
    assert answer.replicas == (
        Replica("DISK", False, 10, 10, 5, 6, "A"),
        Replica("TAPE", True, 4, 10, 5, 6, None),
        Replica("S_VP_DISK", False, 10, 10, None, None, "VP"),
    )
    assert (answer.outcome, answer.did_type, answer.length, answer.is_open, answer.rules) == (
        "found", "DATASET", 10, False, ("ALL",),
    )  # fmt: skip
    assert read_answer(RawAnswer(DID, None), {}).outcome == "not_found"


@pytest.mark.parametrize(
    ("invalid", "code"),
    [
        (row("E", 11, 10), "out_of_range"),
        (row("E", -1), "negative"),
        (row("E", "x"), "wrong_type"),
        (row(""), "missing"),
        (row("a\nb"), "control_character"),
        (row("E", float("nan")), "not_finite"),
    ],
)
def test_invalid_replicas_are_dropped(invalid: dict[str, Any], code: str) -> None:
    answer = read_answer(RawAnswer(DID, {}, (invalid, row("GOOD"))), {})
    assert [entry.rse for entry in answer.replicas] == ["GOOD"] and [entry.code for entry in answer.dropped_rows] == [
        code
    ]


@pytest.mark.parametrize(
    ("replicas", "tape", "needed"),
    [
        ((), {}, False),
        ((row("A"),), {}, False),
        ((row("A", 4),), {}, True),
        ((row("A", 0),), {}, False),
        ((row("A", 4), row("B")), {}, False),
        ((row("A", 4), row("B")), {"B": True}, True),
        ((row("B"),), {"B": True}, False),
    ],
)
def test_single_files_are_needed_if_no_disk_holds_everything(
    replicas: Any, tape: dict[str, bool], needed: bool
) -> None:
    assert read_answer(RawAnswer(DID, {}, replicas), tape).needs_files == needed


def test_files_and_containers() -> None:
    files = (
        {"scope": "s", "name": "f1", "rses": {"A": ["x"], "B": ["y"]}, "states": {"A": "AVAILABLE", "B": "BAD"}},
        {"scope": "s", "name": "f2", "rses": {"B": ["x"]}},
        {"scope": "s", "name": "f3", "rses": {}},
        {"scope": None, "name": "f4"},
    )
    answer = read_answer(
        RawAnswer(DID, {"did_type": "DIDType.CONTAINER"}, contents=({"scope": "s", "name": "c"},), files=files), {}
    )
    assert answer.files == {("s", "f1", "A"), ("s", "f2", "B")}
    assert answer.file_names == (("s", "f1"), ("s", "f2"), ("s", "f3"))
    assert answer.is_container and answer.contents == (("s", "c"),)
    assert [dropped.code for dropped in answer.dropped_rows] == ["missing"]


@pytest.mark.parametrize(("limit", "stored"), [(100, 100), (0, 0), (-1, None), (float("inf"), None), (None, None)])
def test_limits_of_accounts(limit: Any, stored: int | None) -> None:
    table = quota_table("local", {"alice": [{"rse": "E", "bytes": 7, "bytes_limit": limit}]})
    assert table.table == "rucio_local_usage" and dict(table.rows) == {("alice", "E"): (7, stored)}


@pytest.mark.parametrize(
    ("entry", "code"),
    [({"bytes": -1}, "negative"), ({"bytes": 1, "bytes_limit": -2}, "negative"), ({"bytes": "x"}, "wrong_type")],
)
def test_stored_rows_of_an_invalid_account_are_kept(entry: dict[str, Any], code: str) -> None:
    table = quota_table("global", {"alice": [{"rse_expression": "tier=2", **entry}], "bob": []})
    assert table.table == "rucio_account_usage" and codes(table.dropped_rows) == {"alice": code}
    assert table.keeps(("alice", "tier=1"), (1, 2)) and not table.keeps(("bob", "tier=1"), (1, 2))


PACE = Pace(first_s=300, longest_s=1500, growth=2, failed_s=60)


def test_the_interval_grows_while_nothing_changes() -> None:
    waits, record = [], None
    for digest in ("a", "a", "a", "a", "a", "b", "b"):
        record = after_answer(DID, record, digest, NOW, PACE)
        waits.append((record.next_at - NOW).total_seconds())
    assert waits == [300, 600, 1200, 1500, 1500, 300, 600]


def test_failures_wait_longer_and_longer_and_keep_the_digest() -> None:
    record = after_answer(DID, None, "a", NOW, PACE)
    waits = []
    for _ in range(7):
        record = after_failure(DID, record, NOW, PACE)
        waits.append((record.next_at - NOW).total_seconds())
    assert waits == [60, 120, 240, 480, 960, 1500, 1500]
    assert record.digest == "a" and after_answer(DID, record, "a", NOW, PACE).interval_s == 600


def request_record(name: str, in_s: float, digest: str | None = "x") -> RequestRecord:
    return RequestRecord(("s", name), NOW + timedelta(seconds=in_s), 300, digest)


def test_new_datasets_come_first_and_then_the_most_urgent() -> None:
    needed = [Needed(("s", name), urgency) for urgency, name in enumerate(["later", "known", "new", "failed", "waits"])]
    records = {
        record.did: record
        for record in (
            request_record("later", -1),
            request_record("known", -100),
            request_record("failed", -1, None),
            request_record("waits", 1),
        )
    }
    assert [name for _, name in due(needed, records, NOW, 10)] == ["new", "failed", "later", "known"]
    assert [name for _, name in due(needed, records, NOW, 2)] == ["new", "failed"]


@pytest.mark.parametrize(("in_s", "is_due"), [(0, True), (0.001, False)])
def test_a_dataset_is_due_at_its_instant(in_s: float, is_due: bool) -> None:
    assert bool(due([Needed(("s", "d"), 0)], {("s", "d"): request_record("d", in_s)}, NOW, 1)) == is_due


@pytest.mark.parametrize(("in_s", "is_due"), [(1500, False), (1500.001, True), (30 * 86_400, True)])
def test_a_time_set_by_a_wrong_clock_is_ignored(in_s: float, is_due: bool) -> None:
    assert bool(due([Needed(("s", "d"), 0)], {("s", "d"): request_record("d", in_s)}, NOW, 1, PACE)) == is_due


@given(st.lists(st.booleans(), max_size=30))
def test_no_interval_exceeds_the_longest(changes: list[bool]) -> None:
    record, digest = None, 0
    for changed in changes:
        digest += changed
        record = after_answer(DID, record, str(digest), NOW, PACE)
        assert PACE.first_s <= record.interval_s <= PACE.longest_s
        assert record.next_at == NOW + timedelta(seconds=record.interval_s)
