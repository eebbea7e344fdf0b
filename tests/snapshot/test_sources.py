"""Whether a source may be used: present, fresh, and not suddenly smaller."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from broker import resources
from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.source import SourceLimit, assess
from broker.snapshot.source_list import GRID_SOURCES, limits_of
from broker.snapshot.sources.pilots import PILOTS

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)


def source(rows: int, age_s: float | None = None, name: str = "links", **tables: int) -> RawSource:
    counts = tables or {"t": rows}
    newest = None if age_s is None else NOW - timedelta(seconds=age_s)
    return RawSource(name, {table: Rows(("a",), ((1,),) * count) for table, count in counts.items()}, newest)


@pytest.mark.parametrize(
    ("age_s", "limit_s", "state"),
    [
        (0, 3600, "ok"),
        (3600, 3600, "ok"),
        (3600.001, 3600, "stale"),
        (86400 * 365, 3600, "stale"),
        (-60, 3600, "ok"),  # a clock that runs ahead
        (None, 3600, "ok"),  # rows without timestamps have no age
        (86400 * 365, None, "ok"),
    ],
)
def test_age(age_s: float | None, limit_s: float | None, state: str) -> None:
    reading, verdict = assess(source(5, age_s), NOW, SourceLimit(max_age_s=limit_s))
    expected_age_s = None if age_s is None else max(age_s, 0)  # an age is never negative
    assert (verdict.state, verdict.age_s, verdict.limit_s, verdict.rows) == (state, expected_age_s, limit_s, 5)
    assert verdict.usable is (state == "ok")
    assert reading.row_count == 5


def test_a_naive_time_is_utc() -> None:
    naive = RawSource("links", {}, (NOW - timedelta(seconds=50)).replace(tzinfo=None))
    assert assess(naive, NOW, SourceLimit(100))[1].age_s == 50


@pytest.mark.parametrize(
    ("now", "before", "max_shrink", "state", "expected_rows"),
    [
        (50, 100, 0.5, "ok", 50),
        (49, 100, 0.5, "shrunk", 100),
        (100, 100, 0.0, "ok", 100),
        (99, 100, 0.0, "shrunk", 100),
        (150, 100, 0.0, "ok", 150),
        (0, 100, 1.0, "ok", 0),
        (0, 100, 0.9, "shrunk", 100),
        (0, 0, 0.0, "ok", 0),
        (5, None, 0.5, "ok", 5),
    ],
)
def test_shrinking(now: int, before: int | None, max_shrink: float, state: str, expected_rows: int) -> None:
    last = None if before is None else source(before)
    reading, verdict = assess(source(now), NOW, SourceLimit(max_shrink=max_shrink), last)
    assert (verdict.state, verdict.rows, reading.row_count) == (state, expected_rows, expected_rows)
    assert verdict.usable
    assert ("refused" in verdict.detail) is (state == "shrunk")


@pytest.mark.parametrize(("rows", "state"), [(0, "missing"), (1, "ok")])
def test_an_empty_source_that_may_not_be_empty_is_missing(rows: int, state: str) -> None:
    reading, verdict = assess(source(rows), NOW, SourceLimit(may_be_empty=False))
    assert (verdict.state, verdict.usable) == (state, state == "ok")
    assert reading.row_count == rows
    assert assess(source(0), NOW, SourceLimit(may_be_empty=True))[1].usable
    assert assess(source(0), NOW, SourceLimit(may_be_empty=False), source(0))[1].state == "missing"


@pytest.mark.parametrize("max_shrink", [0.5, 1.0])
def test_a_source_that_vanishes_is_replaced_by_its_last_good_reading(max_shrink: float) -> None:
    limit = SourceLimit(may_be_empty=False, max_shrink=max_shrink)
    reading, verdict = assess(source(0), NOW, limit, source(10))
    assert (verdict.state, reading.row_count) == ("shrunk", 10)


def test_the_last_good_reading_becomes_stale_too() -> None:
    limit = SourceLimit(max_age_s=100, max_shrink=0.5)
    reading, verdict = assess(source(1, 0), NOW, limit, source(10, 101))
    assert (verdict.state, verdict.usable, reading.row_count) == ("stale", False, 10)
    assert "refused" in verdict.detail
    assert assess(source(1, 0), NOW, limit, source(10, 100))[1].state == "shrunk"


@pytest.mark.parametrize(
    ("now", "state"),
    [
        ({"schedconfig_json": 10, "panda_site": 10, "site": 5}, "ok"),
        ({"schedconfig_json": 0, "panda_site": 100, "site": 100}, "shrunk"),
        ({"schedconfig_json": 4, "panda_site": 10, "site": 5}, "shrunk"),
        ({"schedconfig_json": 10, "panda_site": 10, "site": 0}, "shrunk"),
        ({"schedconfig_json": 10, "panda_site": 10}, "shrunk"),
    ],
)
def test_an_unchanged_table_does_not_hide_one_that_shrank(now: dict[str, int], state: str) -> None:
    last = source(0, name="queues", schedconfig_json=10, panda_site=10, site=5)
    limit = SourceLimit(may_be_empty=False, max_shrink=0.5, main_table="schedconfig_json")
    assert assess(source(0, name="queues", **now), NOW, limit, last)[1].state == state


@pytest.mark.parametrize(("name", "table"), [("queues", "schedconfig_json"), ("storages", "ddm_endpoint")])
@pytest.mark.parametrize("settings", [{}, {"queues": {"may_be_empty": False}, "storages": {"may_be_empty": False}}])
def test_a_source_without_its_main_table_is_missing(name: str, table: str, settings: dict[str, Any]) -> None:
    limit = limits_of(settings)[name]
    assert assess(source(0, name=name, **{table: 0, "other": 9}), NOW, limit)[1].state == "missing"
    assert assess(source(0, name=name, **{table: 1, "other": 0}), NOW, limit)[1].state == "ok"


def test_settings_missing_in_the_file_come_from_the_source() -> None:
    limits = limits_of({"links": {}, "jobs": {"max_age_s": 60}})
    assert limits["links"] == SourceLimit()
    assert limits["jobs"] == SourceLimit(60.0)
    assert limits["pilots"] == PILOTS.limit == SourceLimit(21600.0, may_be_empty=False, max_shrink=0.8)


def test_limits_as_shipped() -> None:
    limits = limits_of(yaml.safe_load(resources.path("config/sources.yaml").read_text(encoding="utf-8")))
    assert limits == {source.name: source.limit for source in GRID_SOURCES}
    assert not limits["queues"].may_be_empty
    assert limits["queues"].max_age_s == 86400.0
    assert limits["jobs"] == SourceLimit(max_age_s=3600.0)
    assert limits["links"].max_age_s == 3600.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quues": {}}, "quues: no such source"),
        ({"queues": {"max_age_s": 0}}, "queues: max_age_s"),
        ({"queues": {"max_age_s": -5}}, "queues: max_age_s"),
        ({"queues": {"max_age_s": "day"}}, "queues: max_age_s"),
        ({"queues": {"max_age_s": True}}, "queues: max_age_s"),
        ({"queues": {"max_age_s": float("nan")}}, "queues: max_age_s"),
        ({"queues": {"max_shrink": 1.1}}, "queues: max_shrink"),
        ({"queues": {"max_shrink": -0.1}}, "queues: max_shrink"),
        ({"queues": {"max_shrink": None}}, "queues: max_shrink"),
        ({"queues": {"may_be_empty": "no"}}, "queues: may_be_empty"),
        ({"queues": {"maximum_age": 5}}, "queues: maximum_age"),
        ({"queues": None}, "queues"),
    ],
)
def test_wrong_limits(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        limits_of(settings)
