"""A cap on queued files: when it closes, its observation, and the sources that it needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.rules.contract import Filter
from broker.rules.production_job.filters.link_full import LinkFull
from broker.rules.production_job.filters.nucleus_full import NucleusFull
from broker.rules.production_task.filters.transfer_backlog import TransferBacklog
from broker.rules.shared.queued_files_cap import against_cap, below_cap, sources_of_cap
from tests.rules.builders import holds, tuning_for


@pytest.mark.parametrize(
    ("files", "cap", "equality_closes", "open_"),
    [
        (100.0, 100.0, False, True),
        (101.0, 100.0, False, False),
        (99.0, 100.0, True, True),
        (100.0, 100.0, True, False),
        (None, 100.0, False, True),
        (None, 100.0, True, True),
        # a cap of 0 always closes
        (0.0, 0.0, False, False),
        (None, 0.0, False, False),
        (0.0, 1.0, False, True),
        (1.0, 1.0, False, True),
        (2.0, 1.0, False, False),
    ],
)
def test_a_cap(files: float | None, cap: float, equality_closes: bool, open_: bool) -> None:
    queued = np.array([[np.nan if files is None else files]])
    assert below_cap(queued, cap, equality_closes).item() is open_
    observation = against_cap(queued, cap, "CAP", equality_closes)
    assert (observation.value, observation.inputs) == (files or 0.0, {"known": files is not None})
    assert holds(observation) is open_


def test_a_cap_of_0_needs_no_figures() -> None:
    assert sources_of_cap(("links",), 0.0) == ()
    assert sources_of_cap(("links",), 0.5) == ("links",)
    assert sources_of_cap(("links",), 1.0) == ("links",)


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        (LinkFull(), {"equality": "closes"}),
        (NucleusFull(), {"equality": "closes"}),
        (TransferBacklog(), {"cap_of_zero": "closes_with_files"}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_cap_of_0_that_closes_only_where_files_wait_needs_the_figures(
    rule: Filter[Any], options: dict[str, str]
) -> None:
    (cap,) = rule.keys
    for value, sources in ((0, ()), (1, ("links",))):
        assert rule.needs(tuning_for(rule, **{cap: value})) == sources
        assert rule.configured(options).needs(tuning_for(rule, **{cap: value})) == ("links",)
