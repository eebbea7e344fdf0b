"""Endpoints, relations, and queues that write where a nucleus reads."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from broker.snapshot.snapshot import Snapshot
from tests.snapshot.raw_grid import at_site, build, endpoint, queue, ucore, uses

ACTIVITIES = ("read_lan", "write_lan", "read_wan", "write_wan")


def snapshot_of(*endpoints: dict[str, Any]) -> Snapshot:
    return build(schedconfig_json=[queue("A")], ddm_endpoint=endpoints)


@pytest.mark.parametrize(
    ("value", "usable"),
    [("ON", True), (None, True), ("", True), ("OFF", False), ("TEST", False), ("AUTO", False), ("on", False)],
)
@pytest.mark.parametrize("activity", ACTIVITIES)
def test_an_activity_is_usable_if_on_or_not_published(activity: str, value: str | None, usable: bool) -> None:
    storages = snapshot_of(endpoint("D", "S", detailed_status=json.dumps({activity: value}))).storages
    assert {name: bool(getattr(storages, name)[0]) for name in ACTIVITIES} == {
        name: usable if name == activity else True for name in ACTIVITIES
    }


@pytest.mark.parametrize("value", [False, 0, 1, ["ON"], {"status": {"value": "OFF"}}])
def test_any_other_published_value_means_off(value: Any) -> None:
    assert not snapshot_of(endpoint("D", "S", detailed_status=json.dumps({"read_wan": value}))).storages.read_wan[0]


@pytest.mark.parametrize("document", ["{", "[]", "[" * 100_000])
def test_an_unreadable_document_publishes_nothing_and_is_reported(document: str) -> None:
    snapshot = snapshot_of(endpoint("D", "S", detailed_status=document))
    assert all(getattr(snapshot.storages, name)[0] for name in ACTIVITIES)
    assert [(entry.identifier, entry.code) for entry in snapshot.dropped_rows] == [("D", "defaulted")]


def test_a_missing_document_is_not_reported() -> None:
    snapshot = snapshot_of(endpoint("D", "S", detailed_status=None))
    assert snapshot.dropped_rows == ()
    assert all(getattr(snapshot.storages, name)[0] for name in ACTIVITIES)


@pytest.mark.parametrize("column", ["space_total", "space_free", "space_expired", "space_min_free"])
@pytest.mark.parametrize(
    ("value", "code"), [(-1, "negative"), (math.nan, "not_finite"), (math.inf, "not_finite"), ("much", "wrong_type")]
)
def test_an_endpoint_with_an_invalid_space_is_dropped(column: str, value: Any, code: str) -> None:
    snapshot = snapshot_of(endpoint("BAD", "S", **{column: value}), endpoint("GOOD", "S"))
    assert list(snapshot.storages.name) == ["GOOD"]
    assert [(entry.identifier, entry.code) for entry in snapshot.dropped_rows] == [("BAD", code)]


def test_space() -> None:
    storages = snapshot_of(endpoint("A", "S", space_free=0), endpoint("B", "S", space_free=None)).storages
    assert storages.space_free_gb[0] == 0.0
    assert math.isnan(storages.space_free_gb[1])


def test_names_of_endpoints() -> None:
    snapshot = snapshot_of(endpoint("x" * 1_000_000, "S"), endpoint("B", "S"), endpoint("A", None), endpoint("A", "S"))
    assert list(snapshot.storages.name) == ["A", "B"]
    assert list(snapshot.storages.site_name) == [None, "S"]
    assert sorted(entry.code for entry in snapshot.dropped_rows) == ["duplicate", "too_long"]
    assert all(len(entry.identifier) <= 80 for entry in snapshot.dropped_rows)


@pytest.mark.parametrize(
    ("columns", "blacklisted", "is_input", "is_output"),
    [
        ({}, "N", True, True),
        ({}, "Y", False, True),
        ({}, None, True, True),
        ({"roles": "read_lan"}, "N", True, False),
        ({"roles": " write_lan , read_lan "}, "N", True, True),
        ({"roles": "write_lan"}, "N", False, True),
        ({"roles": "read_wan"}, "N", False, False),
        ({"roles": None}, "N", False, False),
        ({"roles": "read_lan_analysis", "scope": "analysis"}, "N", True, False),
        ({"roles": "read_lan_analysis"}, "N", False, False),
    ],
)
def test_roles(columns: dict[str, Any], blacklisted: str | None, is_input: bool, is_output: bool) -> None:
    snapshot = build(
        schedconfig_json=[queue("A")],
        ddm_endpoint=[endpoint("D", "S", blacklisted_read=blacklisted)],
        panda_ddm_relation=[uses("A", "D", **columns)],
    )
    assert (list(snapshot.relations.is_input), list(snapshot.relations.is_output)) == ([is_input], [is_output])


def test_unusable_relations_are_dropped() -> None:
    snapshot = build(
        schedconfig_json=[queue("A")],
        ddm_endpoint=[endpoint("D", "S")],
        panda_ddm_relation=[
            uses("A", "GONE"),
            uses("NO_QUEUE", "D"),
            uses("A", "D", order_read="first"),
            uses("A", "D", scope=5),
            uses("A", "D", scope=None, is_local=None, order_write=None),
        ],
    )
    assert list(snapshot.relations.scope) == ["default"]
    assert list(snapshot.relations.is_local) == [True]
    assert [(entry.identifier, entry.code) for entry in snapshot.dropped_rows] == [
        ("A GONE", "unknown_endpoint"),
        ("A D", "wrong_type"),
        ("A D", "wrong_type"),
    ]


@pytest.mark.parametrize(
    ("data", "relation", "shares"),
    [
        ({}, {}, True),
        ({"status": "standby"}, {}, False),
        ({"type": "analysis"}, {}, False),
        ({"type": "special"}, {}, False),
        ({"cloud": ""}, {}, False),
        ({}, {"default_write": "N"}, False),
        ({}, {"scope": "analysis"}, False),
        ({}, {"ddm_endpoint_name": "OTHER"}, False),
        ({}, {"ddm_endpoint_name": "READ_ONLY"}, True),
        ({}, {"ddm_endpoint_name": "CLOSED"}, False),
    ],
)
def test_storage_sharing(data: dict[str, Any], relation: dict[str, Any], shares: bool) -> None:
    snapshot = build(
        schedconfig_json=[queue("N1"), queue("Q", **data)],
        panda_site=[at_site("N1", "NUC"), at_site("Q", "FAR")],
        site=[{"site_name": "NUC", "role": "nucleus"}],
        ddm_endpoint=[
            endpoint("D", "NUC"),
            endpoint("READ_ONLY", "NUC"),
            endpoint("CLOSED", "NUC", blacklisted_read="Y"),
            endpoint("OTHER", "FAR"),
        ],
        panda_ddm_relation=[
            uses("N1", "D"),
            uses("N1", "READ_ONLY", roles="read_lan", default_write="N"),
            uses("N1", "CLOSED", roles="read_lan", default_write="N"),
            uses("Q", "D", **relation),
        ],
    )
    assert snapshot.shares_storage.tolist() == [[True, shares]]


def test_a_queue_shares_storage_only_if_it_runs_everything_the_nucleus_runs() -> None:
    snapshot = build(
        schedconfig_json=[ucore("N1"), queue("Q"), ucore("U")],
        panda_site=[at_site("N1", "NUC")],
        site=[{"site_name": "NUC", "role": "nucleus"}],
        ddm_endpoint=[endpoint("D", "NUC")],
        panda_ddm_relation=[uses("N1", "D"), uses("Q", "D"), uses("U", "D")],
    )
    # the nucleus runs production and analysis, Q production only
    assert snapshot.shares_storage.tolist() == [[True, False, True]]
