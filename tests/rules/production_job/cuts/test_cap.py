"""The cap on waiting jobs: 20, or twice the running jobs."""

from __future__ import annotations

from typing import Any

import pytest

from broker.rules.production_job.cuts.cap import Cap
from tests.rules.builders import check_cut


@pytest.mark.parametrize(
    ("keep", "load"),
    [
        (True, {"defined": 20.0}),
        (False, {"defined": 21.0}),
        (False, {"activated": 21.0}),
        (False, {"starting": 21.0}),
        (False, {"assigned": 21.0}),
        (False, {"defined": 5.0, "activated": 6.0, "starting": 5.0, "assigned": 5.0}),
        (True, {"defined": 5.0, "activated": 5.0, "starting": 5.0, "assigned": 5.0}),
        (True, {"assigned": 21.0, "all_local": True}),
        (True, {"defined": 20.0, "all_local": True}),
        (False, {"activated": 21.0, "all_local": True}),
        (True, {"activated": 200.0, "running": 100.0}),
        (False, {"activated": 201.0, "running": 100.0}),
        (True, {"activated": 50.0, "queue_limit": 50.0}),
        (False, {"activated": 51.0, "queue_limit": 50.0}),
        (True, {"activated": 9999.0, "urgent": True}),
    ],
    ids=str,
)
def test_cap(keep: bool, load: dict[str, Any]) -> None:
    check_cut(Cap(), keep, 1.0, **load)
