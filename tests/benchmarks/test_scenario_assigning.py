"""The synthetic grid for the benchmark of the task brokerage."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.columns import size
from benchmarks.scenario_assigning import OTHER_TASKS, make_assigning_scenario


def test_the_scenario_has_the_requested_size() -> None:
    tables = make_assigning_scenario(20, 5, 60, seed=1).tables
    assert Counter(tables["jedi_tasks"]["status"])["assigning"] == 20
    assert size(tables["jedi_tasks"]) == 20 + OTHER_TASKS
    assert sum(role == "nucleus" for role in tables["site"]["role"]) == 5
    assert all(
        (status == "assigning") == (nucleus is None)
        for status, nucleus in zip(tables["jedi_tasks"]["status"], tables["jedi_tasks"]["nucleus"], strict=True)
    )
    kinds = Counter(tables["jedi_datasets"]["type"])
    assert kinds["output"] == kinds["log"] == 20
    assert len({len(values) for values in tables["jedi_datasets"].values()}) == 1


def test_too_many_nuclei_are_refused() -> None:
    with pytest.raises(ValueError, match="too few for 60 nuclei"):
        make_assigning_scenario(5, 60, 60, seed=1)
