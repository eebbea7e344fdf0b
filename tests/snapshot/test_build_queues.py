"""Queues, candidates and sites built from raw rows."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from broker.domain.queues import BARE_ALLOW, BARE_NONE, BARE_ONLY
from broker.engine.job.snapshot_reading import SnapshotReading
from broker.snapshot.snapshot import Snapshot
from tests.snapshot.raw_grid import TYPES, at_site, build, endpoint, queue, ucore, uses


def codes(snapshot: Snapshot, source: str = "queues") -> dict[str, str]:
    """Codes of the dropped rows of a source, by identifier."""
    return {entry.identifier: entry.code for entry in snapshot.dropped_rows if entry.source == source}


def test_candidates_are_pseudo_queues_and_plain_queues_by_name() -> None:
    snapshot = build(schedconfig_json=[queue("Z"), ucore("B"), queue("A")], resource_types=TYPES)
    queues = snapshot.queues
    assert list(queues.name) == ["A", "B/MCORE", "B/SCORE", "Z"]
    assert list(queues.unified_name) == ["A", "B", "B", "Z"]
    assert list(queues.resource_type) == [None, "MCORE", "SCORE", None]
    assert list(snapshot.unified.name) == ["A", "B", "Z"]
    assert list(queues.unified) == [0, 1, 1, 2]
    assert list(queues.cores) == [1, 8, 1, 1]
    assert list(queues.unified_cores) == [1, 8, 8, 1]
    assert list(snapshot.unified.is_unified) == [False, True, False]


def test_a_unified_queue_without_resource_types_has_no_candidates() -> None:
    snapshot = build(schedconfig_json=[ucore("B"), queue("A")])
    assert list(snapshot.queues.name) == ["A"]
    assert list(snapshot.unified.name) == ["A", "B"]


def test_a_pseudo_queue_inherits_values_that_are_not_derived() -> None:
    row = ucore("B", 8, maxrss=16000, minrss=0, maxtime=86400, maxwdir=40000, maxdiskio=1000, jobseed="es")
    snapshot = build(schedconfig_json=[row], resource_types=TYPES)
    queues = snapshot.queues
    assert list(queues.maxrss_mb) == [16000, 2000]
    assert list(queues.minrss_mb) == [0, 0]
    for column, value in (("maxtime_s", 86400), ("maxwdir_mb", 40000), ("maxdiskio_kbps", 1000), ("jobseed", "es")):
        assert list(getattr(queues, column)) == [value, value]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("{", "invalid_json"),
        ('{"nickname": "X", "maxrss": NaN}', "invalid_json"),
        ('{"nickname": "X", "maxrss": Infinity}', "invalid_json"),
        ('{"nickname": "X", "maxrss": 1e999}', "not_finite"),
        ('{"nickname": "X", "status": 1}', "wrong_type"),
        ("[]", "wrong_type"),
        ('{"nickname": "' + "x" * 900_000 + '"}', "too_long"),
        ('{"nickname": "' + "x" * 1_000_001 + '"}', "too_long"),
        ("[" * 100_000, "too_deep"),
        ('{"nickname": "X", "params": ' + '{"a":' * 100_000 + "1" + "}" * 100_001, "too_deep"),
        ('{"nickname": "A\\u0000"}', "not_text"),
        ('{"nickname": "A\\ud800"}', "not_text"),
        ('{"nickname": 5}', "wrong_type"),
        ('{"nickname": "A"}', "duplicate"),
        ('{"nickname": "X", "nickname": "Y"}', "invalid_json"),
    ],
)
def test_an_invalid_row_is_dropped_and_the_others_are_used(data: str, code: str) -> None:
    snapshot = build(schedconfig_json=[queue("A"), {"panda_queue": "BAD", "data": data}, queue("C")])
    assert list(snapshot.unified.name) == ["A", "C"]
    assert codes(snapshot) == {"BAD": code}
    assert all(len(entry.detail) < 200 for entry in snapshot.dropped_rows)


def test_the_choice_between_rows_of_one_name_does_not_depend_on_their_order() -> None:
    rows = [queue("B", nickname="SAME", corecount=2), queue("A", nickname="SAME", corecount=4)]
    for order in (rows, rows[::-1]):
        snapshot = build(schedconfig_json=order)
        assert list(snapshot.queues.cores) == [4]
        assert codes(snapshot) == {"B": "duplicate"}


def test_rows_that_are_no_queues_are_ignored() -> None:
    rows = [{"panda_queue": "ALL", "data": "{"}, {"panda_queue": "EMPTY", "data": None}, queue("A")]
    snapshot = build(schedconfig_json=rows)
    assert list(snapshot.unified.name) == ["A"]
    assert snapshot.dropped_rows == ()


def test_names_are_not_changed() -> None:
    names = ["it's", "100%s", "two\nlines", 'quo"te', "Zürich", "; DROP TABLE x"]
    snapshot = build(schedconfig_json=[queue(name) for name in names])
    assert sorted(snapshot.unified.name) == sorted(names)


def test_a_defaulted_value_is_reported_and_the_queue_used() -> None:
    snapshot = build(schedconfig_json=[queue("A", corecount="many")])
    assert list(snapshot.queues.cores) == [0]
    assert codes(snapshot) == {"A": "defaulted"}


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"resource_name": None}, "missing"),
        ({"resource_name": "X", "mincore": "two"}, "wrong_type"),
        ({"resource_name": "SCORE", "mincore": 4}, "duplicate"),
        ({"resource_name": "X", "maxrampercore": math.nan}, "not_finite"),
    ],
)
def test_an_invalid_resource_type_is_dropped(row: dict[str, Any], code: str) -> None:
    snapshot = build(schedconfig_json=[ucore("B")], resource_types=[*TYPES, row])
    assert list(snapshot.queues.name) == ["B/MCORE", "B/SCORE"]
    assert list(codes(snapshot, "resource_types").values()) == [code]


@pytest.mark.parametrize(("name", "is_test"), [("A_TEST", True), ("ATestB", True), ("latest", True), ("TES_T", False)])
def test_test_queues(name: str, is_test: bool) -> None:
    assert list(build(schedconfig_json=[queue(name)]).unified.is_test) == [is_test]


def test_a_queue_without_a_cloud_runs_nothing() -> None:
    rows = [
        *(queue("A", cloud=""), queue("B", cloud="US"), queue("C", cloud=None, type="unified")),
        *(queue("D", cloud="US", type="unified"), queue("E", cloud="", type="analysis")),
    ]
    unified = build(schedconfig_json=rows).unified
    assert list(unified.runs_production) == [False, True, False, True, False]
    assert list(unified.runs_analysis) == [False, False, False, True, False]


def test_nuclei_and_satellites() -> None:
    snapshot = build(
        schedconfig_json=[
            queue("N2", catchall="bareNucleus=allow,secondaryNucleus=TWO"),
            queue("N1", catchall="bareNucleus=only,secondaryNucleus=ONE"),
            queue("S1"),
            queue("A1", type="analysis"),
            queue("C1", cloud=""),
            queue("X1"),
            queue("Y1"),
        ],
        panda_site=[
            *(at_site("N2", "NUC"), at_site("N1", "NUC"), at_site("S1", "SAT"), at_site("A1", "ANALYSIS")),
            *(at_site("C1", "CLOUDLESS"), at_site("X1", "OTHER"), at_site("Y1", "GONE")),
        ],
        site=[
            *({"site_name": site, "role": "nucleus"} for site in ("NUC", "ANALYSIS", "CLOUDLESS", "QUEUELESS")),
            {"site_name": "SAT", "role": "satellite", "state": "INACTIVE"},
            {"site_name": "OTHER", "role": "tier3"},
        ],
    )
    nuclei = snapshot.nuclei
    assert list(nuclei.name) == ["NUC", "SAT"]
    assert list(nuclei.is_nucleus) == [True, False]
    assert list(nuclei.state) == ["ACTIVE", "INACTIVE"]
    # the first queue by name, in any order of the rows
    assert list(nuclei.bare) == [BARE_ONLY, BARE_NONE]
    assert list(nuclei.secondary) == ["ONE", None]
    assert [snapshot.unified.name[index] for index in nuclei.first_unified] == ["N1", "S1"]
    nucleus_of_queue = dict(zip(snapshot.queues.name, snapshot.queues.nucleus, strict=True))
    assert nucleus_of_queue == {"N1": 0, "N2": 0, "S1": 1, "A1": -1, "C1": -1, "X1": -1, "Y1": -1}
    assert BARE_ALLOW in snapshot.queues.bare_nucleus


def test_the_default_output_of_a_nucleus_is_the_default_output_of_its_first_queue() -> None:
    snapshot = build(
        schedconfig_json=[queue("N1"), queue("N2")],
        panda_site=[at_site("N1", "NUC"), at_site("N2", "NUC")],
        site=[{"site_name": "NUC", "role": "nucleus"}],
        ddm_endpoint=[endpoint("D1", "NUC"), endpoint("D2", "NUC")],
        panda_ddm_relation=[uses("N2", "D1"), uses("N1", "D2")],
    )
    assert list(snapshot.nuclei.output_storage) == [1]
    assert list(snapshot.queues.output_storage) == [1, 0]


@pytest.mark.parametrize(
    "columns",
    [
        {"default_write": "N"},
        {"roles": "read_lan"},
        {"scope": "analysis"},
        {"ddm_endpoint_name": "UNKNOWN"},
    ],
)
def test_no_default_output(columns: dict[str, str]) -> None:
    relations = [uses("A", "D", **columns)]
    snapshot = build(schedconfig_json=[queue("A")], ddm_endpoint=[endpoint("D", "S")], panda_ddm_relation=relations)
    assert list(snapshot.queues.output_storage) == [-1]
    assert list(snapshot.queues.storage_site) == [-1]


def test_an_invalid_site_is_dropped() -> None:
    snapshot = build(schedconfig_json=[queue("A")], site=[{"site_name": "x" * 300}, {"site_name": "S", "role": 5}])
    assert set(codes(snapshot).values()) == {"too_long", "wrong_type"}


def test_a_snapshot_without_rows_is_empty() -> None:
    snapshot = build()
    assert len(snapshot.queues) == len(snapshot.unified) == len(snapshot.nuclei) == len(snapshot.storages) == 0
    assert snapshot.links.total_queued.shape == (0,)
    assert snapshot.jobs.by_accounting_key.shape[0] == 0


def test_a_snapshot_is_read_only() -> None:
    snapshot = build(schedconfig_json=[queue("A")])
    for table in (snapshot.queues, snapshot.unified, snapshot.jobs, snapshot.links):
        for value in vars(table).values():
            assert not isinstance(value, np.ndarray) or not value.flags.writeable
    assert not snapshot.shares_storage.flags.writeable


def test_nulls_in_a_document_become_nan_without_warnings(recwarn: pytest.WarningsRecorder) -> None:
    document = json.dumps({"nickname": "A", "status": "online", "cloud": "US", "maxrss": None, "minrss": None})
    snapshot = build(schedconfig_json=[{"panda_queue": "A", "data": document}])
    assert np.isnan(snapshot.queues.maxrss_mb).all()
    assert not recwarn.list


@pytest.mark.parametrize(
    ("columns", "cloudless"),
    [
        ({"type": "analysis", "cloud": ""}, True),
        ({"type": "analysis", "cloud": "DE"}, False),
        ({"type": "production", "cloud": ""}, False),
        ({"type": "unified", "cloud": ""}, False),
        ({"type": "analysis", "cloud": "", "catchall": "grandly_unified"}, False),
    ],
)
def test_analysis_only_queues_without_a_cloud(columns: dict[str, Any], cloudless: bool) -> None:
    """They are on no map, unless the reading of the snapshot puts them there."""
    grid = build(schedconfig_json=[queue("A", **columns)])
    assert list(grid.unified.cloudless_analysis) == [cloudless]
    reading = SnapshotReading().configured({"without_cloud": "analysis_on_map"})
    with_cloud = bool(columns["cloud"])
    assert list(grid.unified.runs_analysis) == [with_cloud]
    assert list(reading.read(grid).unified.runs_analysis) == [with_cloud or cloudless]
