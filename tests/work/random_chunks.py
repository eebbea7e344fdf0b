"""Random master files and settings for the property tests of this package."""

from __future__ import annotations

from hypothesis import strategies as st

from broker.work.input_files import FileTable
from broker.work.split_settings import SplitSettings
from tests.work.files_for_tests import file_table

Row = dict[str, int | None]


@st.composite
def master_files(draw: st.DrawFn, *, at_most: int = 30) -> FileTable:
    """Files; some are parts of one file, some have gaps, boundaries, lumi blocks or no size."""
    rows: list[Row] = []
    for name in range(draw(st.integers(0, at_most))):
        size = draw(st.sampled_from([None, 0, 1, 3_000_000, 900_000_000, 4_000_000_000]))
        common: Row = {
            "lfn": name,
            "size": size,
            "boundary": draw(st.sampled_from([None, 1, 1, 2])),
            "lumi": draw(st.sampled_from([None, 1, 1, 2])),
        }
        parts = draw(st.sampled_from([0, 0, 1, 2, 3]))
        if not parts:
            rows.append(common | {"nevents": draw(st.sampled_from([None, 0, 50, 1000]))})
        for part in range(parts):
            gap = draw(st.sampled_from([0, 0, 0, 1]))
            first = part * 100 + gap
            rows.append(common | {"nevents": parts * 100, "start": first, "end": part * 100 + 99})
    return file_table(rows)


@st.composite
def settings(draw: st.DrawFn) -> SplitSettings:
    """Any settings of a task, with maxima small enough to matter."""
    return SplitSettings(
        merging=draw(st.booleans()),
        scout=draw(st.booleans()),
        files_per_job=draw(st.sampled_from([None, None, 1, 3, 40])),
        events_per_job=draw(st.sampled_from([None, None, 100, 1100])),
        max_files=draw(st.sampled_from([1, 4, 200])),
        max_events=draw(st.sampled_from([None, 250])),
        gb_per_job=draw(st.sampled_from([None, None, 2])),
        max_walltime_s=draw(st.sampled_from([0.0, 4000.0])),
        by_lumi=draw(st.booleans()),
        boundary=draw(st.sampled_from([0, 0, 1, 3])),
        dynamic=draw(st.booleans()),
    )
