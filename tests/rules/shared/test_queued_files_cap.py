"""A cap on files that wait: what closes, what is shown of it, and whose figures it needs."""

from __future__ import annotations

import numpy as np
import pytest

from broker.rules.shared.queued_files_cap import against_cap, below_cap, sources_of_cap
from tests.rules.builders import holds


@pytest.mark.parametrize(
    ("files", "cap", "equality_closes", "open_"),
    [
        (100.0, 100.0, False, True),
        (101.0, 100.0, False, False),
        (99.0, 100.0, True, True),
        (100.0, 100.0, True, False),
        (None, 100.0, False, True),
        (None, 100.0, True, True),
        # the operator's 0 closes, whatever waits
        (0.0, 0.0, False, False),
        (None, 0.0, False, False),
        (0.0, 1.0, False, True),
        (1.0, 1.0, False, True),
        (2.0, 1.0, False, False),
    ],
)
def test_a_cap(files: float | None, cap: float, equality_closes: bool, open_: bool) -> None:
    given = np.array([[np.nan if files is None else files]])
    assert below_cap(given, cap, equality_closes).item() is open_
    seen = against_cap(given, cap, "CAP", equality_closes)
    assert (seen.value, seen.inputs) == (files or 0.0, {"known": files is not None})
    assert holds(seen) is open_


def test_a_cap_of_none_needs_no_figures() -> None:
    assert sources_of_cap(("links",), 0.0) == ()
    assert sources_of_cap(("links",), 0.5) == ("links",)
    assert sources_of_cap(("links",), 1.0) == ("links",)
