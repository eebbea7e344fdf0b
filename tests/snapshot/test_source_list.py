"""Properties of every source of this distribution."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from broker.snapshot.build import build_snapshot
from broker.snapshot.draft import Draft
from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.source import AnySource, Source, TableRead
from broker.snapshot.source_list import GRID_SOURCES, OFFERED_SOURCES, outside_source
from broker.store.snapshots.stored_snapshots import COLUMNS

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
ALL: tuple[AnySource, ...] = (*GRID_SOURCES, *(source() for source in OFFERED_SOURCES))


def empty_source(source: AnySource) -> RawSource:
    tables: Mapping[str, Rows] = {read.name: Rows(read.columns_stored, ()) for read in source.reads}
    return RawSource(source.name, tables)


@pytest.mark.parametrize("source", ALL, ids=lambda source: source.name)
def test_module_tables_and_reads_of_a_source(source: AnySource) -> None:
    assert type(source).__module__ == f"broker.snapshot.sources.{source.name}"
    assert len({read.name for read in source.reads}) == len(source.reads)
    tables = {read.name for read in source.reads}
    assert source.limit.main_table in {None, *tables}
    for read in source.reads:
        if isinstance(read, TableRead):
            assert set(read.as_text) <= set(read.columns) and read.stamp in {None, *read.columns}
        else:
            assert "ORDER BY" in read.statement, "equal content must give equal rows"


@pytest.mark.parametrize("source", GRID_SOURCES, ids=lambda source: source.name)
def test_a_source_without_rows_is_built_and_its_columns_are_known(source: AnySource) -> None:
    Draft({source.name: empty_source(source)}, NOW).of(source)  # type: ignore[arg-type]  # of GRID_SOURCES
    for read in source.reads:
        assert COLUMNS[read.name] == read.columns_stored
    for statistics in ("live", "panda"):
        for read in source.reads_with(statistics):
            assert COLUMNS[read.name] == read.columns_stored


@pytest.mark.parametrize("source", OFFERED_SOURCES, ids=lambda source: source.name)
def test_an_offered_source_is_found_by_its_name_and_built(source: type[Source]) -> None:
    offered_source = outside_source(source.name)
    assert isinstance(offered_source, source)
    snapshot = build_snapshot("s", NOW, {offered_source.name: empty_source(offered_source)}, ())
    assert offered_source.name in snapshot.offered
    assert not [state for state in snapshot.states if state.state == "failed"]
