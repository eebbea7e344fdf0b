"""Conversion of CRIC's documents to rows, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from broker.feeds.model.cric.catalogue import DOCUMENTS, name_by_address, name_by_shape
from broker.feeds.model.cric.closeness import closeness_table
from broker.feeds.model.cric.endpoints import closed, endpoint_table
from broker.feeds.model.cric.queues import (
    RANGES,
    panda_site_table,
    queue_table,
    relation_table,
    site_table,
    split_role,
    tag_table,
)
from broker.feeds.model.rows import MappedTable
from broker.fetching.documents import DocumentRefused
from broker.simulation.model.demo.grid_documents import GridSize, cric_documents, endpoint_name
from tests.feeds.documents import NOW, codes, document, raw

ACTIVE = {"state": "ACTIVE"}


def queue(**fields: Any) -> dict[str, Any]:
    return {"panda_resource": "Q", "nickname": "Q", "status": "online", "maxrss": 2000, **fields}


@pytest.mark.parametrize("state", ["ACTIVE", "DISABLED"])
def test_a_queue_is_stored_whole_in_any_state(state: str) -> None:
    record = queue(state=state, is_virtual=True, unheard_of={"x": [1]})
    table = queue_table(document({"Q": record}))
    assert dict(table.rows) == {("Q",): (record,)} and table.dropped_rows == ()


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("maxrss", -1, "negative"),
        ("maxrss", 0, ""),
        ("maxrss", None, ""),
        ("maxrss", "48000", ""),
        ("maxrss", "plenty", "wrong_type"),
        ("maxrss", 1e9, ""),
        ("maxrss", 1.1e9, "out_of_range"),
        ("maxrss", [1], "wrong_type"),
        ("maxinputsize", -1, ""),
        ("maxinputsize", -2, "out_of_range"),
        ("pledgedcpu", -1, ""),
        ("pledgedcpu", -1.5, "out_of_range"),
        ("corecount", True, "wrong_type"),
        ("maxtime", 3650 * 86_400, ""),
        ("maxtime", 3650 * 86_400 + 1, "out_of_range"),
        ("status", 5, "wrong_type"),
        ("status", None, ""),
        ("nickname", "a\nb", "control_character"),
        ("nickname", "o'brien\"; DROP TABLE x; --", ""),
        ("nickname", "x" * 257, "too_long"),
    ],
)
def test_a_queue_with_an_invalid_value_keeps_its_earlier_row(field: str, value: Any, code: str) -> None:
    table = queue_table(document({"Q": queue(**{field: value}), "R": queue()}))
    assert codes(table.dropped_rows) == ({"Q": code} if code else {})
    assert (("Q",) in table.rows) == (not code)
    assert table.retained_keys == (frozenset({("Q",)}) if code else frozenset())
    assert ("R",) in table.rows


@pytest.mark.parametrize("field", RANGES)
def test_both_bounds_of_every_range(field: str) -> None:
    lowest, highest = RANGES[field]
    within = queue_table(document({"L": queue(**{field: lowest}), "H": queue(**{field: highest})}))
    outside = queue_table(document({"L": queue(**{field: lowest - 1}), "H": queue(**{field: highest * 1.01})}))
    assert (len(within.rows), len(outside.rows)) == (2, 0)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Q" * 50, ""),
        ("Q" * 51, "too_long"),
        ("", "missing"),
        ("a\x1b[2Jb", "control_character"),
        ("Q'); --", ""),
        ("é", ""),
    ],
)
def test_names_of_queues(name: str, code: str) -> None:
    table = queue_table(document({name: queue(), "R": queue()}))
    assert [row.code for row in table.dropped_rows] == ([code] if code else [])
    assert ((name,) in table.rows) == (not code)


def test_duplicate_names_and_invalid_records_are_dropped() -> None:
    text = '{"A": {"maxrss": 1}, "B": {}, "A": {"maxrss": 2}, "C": 5, "D": {"x": NaN}, "E": {"x": "\\u0000"}}'
    table = queue_table(raw(text))
    assert codes(table.dropped_rows) == {"A": "duplicate_name", "C": "wrong_type", "D": "not_finite", "E": "not_text"}
    assert set(table.rows) == {("B",)} and table.retained_keys == {("A",), ("C",), ("D",), ("E",)}


def test_tags_are_stored_whole() -> None:
    tags = {"cmtconfigs": [], "containers": [], "cvmfs": [], "tags": [], "architectures": []}
    table = tag_table(document({"ALL": tags, "Q": tags, "R": {**tags, "tags": {}}}, "tags"))
    assert set(table.rows) == {("ALL",), ("Q",)} and codes(table.dropped_rows) == {"R": "wrong_type"}


def sites(**records: Any) -> dict[str, Any]:
    defaults = {"state": "ACTIVE", "tier_level": 2, "datapolicies": [], "ddmendpoints": {}, "presources": {}}
    return {name.replace("_", "-"): {**defaults, **record} for name, record in records.items()}


def test_sites_are_nuclei_by_their_policies() -> None:
    table = site_table(
        document(sites(A={"datapolicies": ["T2D", "Nucleus"]}, B={}, C={"state": "DISABLED"}, D={"tier_level": None}))
    )
    assert dict(table.rows) == {("A",): ("nucleus", 2), ("B",): ("satellite", 2), ("D",): ("satellite", None)}


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("datapolicies", "Nucleus", "wrong_type"),
        ("presources", [1], "wrong_type"),
        ("ddmendpoints", 3, "wrong_type"),
        ("tier_level", -1, "negative"),
        ("tier_level", 40_000, "out_of_range"),
        ("tier_level", "two", "wrong_type"),
    ],
)
def test_stored_rows_of_an_invalid_site_are_kept(field: str, value: Any, code: str) -> None:
    sites_document = document(sites(A={field: value}, B={}), "sites")
    assert codes(site_table(sites_document).dropped_rows) == {"A": code}
    assert site_table(sites_document).retained_keys == {("A",)}
    queue_table_of_site = panda_site_table(sites_document)
    assert queue_table_of_site.keeps(("Q",), ("A",)) and not queue_table_of_site.keeps(("Q",), ("B",))


def test_panda_sites_are_the_queues_active_in_resources() -> None:
    resources = {"CE1": {"Q1": ACTIVE, "Q2": {"state": "DISABLED"}}, "CE2": {"Q3": ACTIVE, "Q1": ACTIVE}}
    table = panda_site_table(document(sites(A={"presources": resources}, B={"presources": {"CE": {"Q3": ACTIVE}}})))
    assert dict(table.rows) == {("Q1",): ("A",), ("Q3",): ("A",)}
    assert codes(table.dropped_rows) == {"Q3": "duplicate_name"}


def endpoints(endpoint: dict[str, Any], at_site: dict[str, Any] | None = None, **documents: Any) -> MappedTable:
    record = {"state": "ACTIVE", "token": "DISK", "site": "A", "type": "DATADISK", "is_tape": False, **endpoint}
    endpoints_of_site = {"E": ACTIVE if at_site is None else at_site}
    return endpoint_table(
        document({"E": record, "OTHER": {**record, "state": "DISABLED"}}, "endpoints"),
        document(sites(A={"ddmendpoints": endpoints_of_site}), "sites"),
        document(documents.get("closed_write", {}), "closed_write"),
        document(documents.get("closed_read", {}), "closed_read"),
        document(documents.get("states", {}), "endpoint_states"),
    )


def test_an_endpoint() -> None:
    table = endpoints({})
    assert dict(table.rows) == {("E",): ("A", "DISK", "DATADISK", "N", "N", "N", "N", {})}


@pytest.mark.parametrize(
    ("state", "at_site", "is_used"), [("ACTIVE", "ACTIVE", True), ("ACTIVE", "OFF", False), ("OFF", "ACTIVE", False)]
)
def test_an_endpoint_must_be_active_on_both_sides(state: str, at_site: str, is_used: bool) -> None:
    assert (("E",) in endpoints({"state": state}, {"state": at_site}).rows) == is_used


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ({"closed_write": ["E"]}, ("Y", "Y", "N")),
        ({"closed_write": {"E": {}}}, ("Y", "Y", "N")),
        ({"closed_read": ["E", "OTHER"]}, ("N", "N", "Y")),
        ({"closed_read": {}}, ("N", "N", "N")),
    ],
)
def test_closed_endpoints(documents: dict[str, Any], expected: tuple[str, str, str]) -> None:
    assert endpoints({}, **documents).rows[("E",)][4:7] == expected


@pytest.mark.parametrize("content", [[1], "E", 7, None])
def test_invalid_lists_of_closed_endpoints_are_refused(content: Any) -> None:
    with pytest.raises(DocumentRefused):
        closed(document(content, "closed_read"))


def test_detailed_states() -> None:
    states = {
        "E": {"read_lan": {"status": {"value": "OFF", "reason": "down"}}, "write_wan": {"status": {"value": "TEST"}}}
    }
    assert endpoints({}, states=states).rows[("E",)][7] == {"read_lan": "OFF", "write_wan": "TEST"}
    invalid = endpoints({}, states={"E": {"read_lan": {"status": {"value": "MAYBE"}}}})
    assert codes(invalid.dropped_rows) == {"E": "out_of_range"}
    assert (
        invalid.retained_keys
        == {
            ("E",),
        }
        and ("E",) not in invalid.rows
    )


@pytest.mark.parametrize(("tape", "column"), [(True, "Y"), (False, "N"), (None, None)])
def test_tape(tape: bool | None, column: str | None) -> None:
    assert endpoints({"is_tape": tape}).rows[("E",)][3] == column


@pytest.mark.parametrize(
    ("record", "code"),
    [({"is_tape": "yes"}, "wrong_type"), ({"type": "x" * 21}, "too_long"), ({"token": 5}, "wrong_type")],
)
def test_an_invalid_endpoint_keeps_its_row(record: dict[str, Any], code: str) -> None:
    table = endpoints(record)
    assert codes(table.dropped_rows)["E"] == code and ("E",) in table.retained_keys


SITE_OF = {"E1": "A", "E2": "A", "E3": "B"}


def relations(astorages: Any, **fields: Any) -> MappedTable:
    return relation_table(document({"Q": queue(atlas_site="A", astorages=astorages, **fields)}), SITE_OF)


def test_relations_follow_the_storages() -> None:
    table = relations(
        {
            "read_lan": ["E1", "E3", "E2"],
            "write_lan": ["E2", "E1"],
            "read_lan_analysis": ["E3"],
            "pr": ["E1"],
            "pw": ["E1"],
            "read_wan": ["E3"],
        }
    )
    assert dict(table.rows) == {
        ("Q", "E1", "default"): ("Y", "read_lan,write_lan", 1, 2, "Y", "N"),
        ("Q", "E3", "default"): ("N", "read_lan", 2, None, "N", "N"),
        ("Q", "E2", "default"): ("Y", "read_lan,write_lan", 3, 1, "N", "Y"),
        ("Q", "E3", "analysis"): ("N", "read_lan", 1, None, "Y", "N"),
    }


def test_an_unknown_endpoint_still_counts_in_the_order() -> None:
    table = relations({"read_lan": ["GONE", "E1"]}, panda_resource="PR")
    assert dict(table.rows) == {("PR", "E1", "default"): ("Y", "read_lan", 2, None, "N", "N")}
    assert codes(table.dropped_rows) == {"GONE": "unknown_endpoint"}


@pytest.mark.parametrize("astorages", [5, {"read_lan": "E1"}, {"read_lan": [1]}, {"read_lan_a\nb": ["E1"]}])
def test_relations_of_an_invalid_queue_are_kept(astorages: Any) -> None:
    table = relations(astorages, panda_resource="PR")
    assert not table.rows and table.keeps(("PR", "E1", "default"), ())
    assert not table.keeps(("OTHER", "E1", "default"), ())


@pytest.mark.parametrize("astorages", [None, {}])
def test_a_queue_without_storages_has_no_relations(astorages: Any) -> None:
    table = relations(astorages)
    assert not table.rows and not table.dropped_rows


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("read_lan", ("read_lan", "default")),
        ("write_lan_analysis", ("write_lan", "analysis")),
        ("read_lanx", (None, "")),
        ("pr", (None, "")),
        ("read_wan", (None, "")),
    ],
)
def test_roles(role: str, expected: tuple[str | None, str]) -> None:
    assert split_role(role) == expected


@pytest.mark.parametrize(
    ("value", "code"),
    [(0, ""), (11, ""), (-1, ""), (12, "out_of_range"), (-2, "out_of_range"), (None, "missing"), ("x", "wrong_type")],
)
def test_closeness(value: Any, code: str) -> None:
    table = closeness_table(document([{"src": "A", "dst": "B", "closeness": value}]), ("A", "B"))
    assert codes(table.dropped_rows) == ({"A:B": code} if code else {})
    if not code:
        assert dict(table.rows) == {("A", "B", "AGIS_closeness"): (value,)}


@pytest.mark.parametrize(("source", "is_used"), [("A", True), ("UNKNOWN", True), ("ELSEWHERE", False)])
def test_links_of_unknown_sites_are_ignored(source: str, is_used: bool) -> None:
    table = closeness_table(document([{"src": source, "dst": "A", "closeness": 1}]), ("A",))
    assert bool(table.rows) == is_used


def test_documents_are_recognised_by_address_and_shape() -> None:
    for name, catalogued in DOCUMENTS.items():
        assert name_by_address(f"https://cric.example.org{catalogued.path}") == name
    names_by_shape = {name: name_by_shape(content) for name, content in cric_documents(GridSize(4), NOW).items()}
    assert {name for name, shape in names_by_shape.items() if shape != name} == {"closed_read", "closed_write"}
    assert name_by_address("https://cric.example.org/elsewhere") is None


def test_the_synthetic_grid_is_converted_without_faults() -> None:
    documents = {name: document(content, name) for name, content in cric_documents(GridSize(20), NOW).items()}
    storages = endpoint_table(
        *(documents[name] for name in ("endpoints", "sites", "closed_write", "closed_read", "endpoint_states"))
    )
    site_of = {key[0]: values[0] for key, values in storages.rows.items()}
    tables = [
        queue_table(documents["queues"]),
        tag_table(documents["tags"]),
        site_table(documents["sites"]),
        panda_site_table(documents["sites"]),
        storages,
        relation_table(documents["queues"], site_of),
        closeness_table(documents["closeness"], [key[0] for key in site_table(documents["sites"]).rows]),
    ]
    assert [len(table.rows) for table in tables] == [20, 21, 10, 20, 30, 100, 100]
    assert all(table.dropped_rows == () for table in tables)
    assert storages.rows[(endpoint_name(0, 0),)][4:7] == ("Y", "Y", "N")
