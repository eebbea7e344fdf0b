"""The cap on waiting jobs of the share and resource type: the queue limit, or twice the running jobs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from broker.rules.contract import LoadDetails
from broker.rules.production_job.cuts.cap_rt import CapRt
from tests.rules.builders import holds, make_load


def details(**columns: float) -> LoadDetails:
    """Make the details of one candidate; columns not given are zero."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(LoadDetails):
        flag = "Bools" in str(field.type)
        values[field.name] = np.full(1, columns.get(field.name, 0), dtype=np.bool_ if flag else np.float64)
    return LoadDetails(**values)


@pytest.mark.parametrize(
    ("keep", "details_columns", "load"),
    [
        (True, {"typed_queued": 20}, {}),
        (False, {"typed_queued": 21}, {}),
        (False, {"typed_queued": 11, "typed_assigned": 10}, {}),
        (True, {"typed_queued": 11, "typed_assigned": 10}, {"all_local": True}),
        (True, {"typed_queued": 60, "typed_running": 30}, {}),
        (False, {"typed_queued": 61, "typed_running": 30}, {}),
        # running jobs of all types count if they are more
        (True, {"typed_queued": 80, "typed_running": 30}, {"running": 40.0}),
        (False, {"typed_queued": 81, "typed_running": 30}, {"running": 40.0}),
        (True, {"typed_queued": 9999}, {"urgent": True}),
    ],
    ids=str,
)
def test_cap_rt(keep: bool, details_columns: dict[str, float], load: dict[str, Any]) -> None:
    load_table = dataclasses.replace(make_load(**load), details=details(typed_known=1, **details_columns))
    assert bool(CapRt().keep(load_table, np.ones(1)).item()) is keep
    assert holds(CapRt().observe(load_table, np.ones(1))) is keep


def test_unknown_types_cut_nothing() -> None:
    load_table = dataclasses.replace(make_load(), details=details(typed_queued=9999))
    assert CapRt().keep(load_table, np.ones(1)).tolist() == [True]
    assert CapRt().keep(make_load(), np.ones(1)).tolist() == [True]
