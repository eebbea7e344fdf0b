"""The timeout benchmark runs, also at its full size."""

from __future__ import annotations

import pytest

from benchmarks.bench_timeouts import DUE, FILES, JOBS, cycle, fill, measure, scan
from broker.store.connection.database import Database


def test_exactly_the_due_jobs_are_ended(database: Database) -> None:
    fill(database, 3000, 200)
    assert scan(database) == 200
    counts = cycle(database)
    assert (counts["due"], counts["reassigned"], counts["failed"], counts["files"]) == (200, 100, 100, 200 * FILES)
    assert scan(database) == 0


@pytest.mark.slow
def test_more_files_than_a_smallint_holds(database: Database) -> None:
    fill(database, 10_000, 10_000)
    assert scan(database) == 10_000
    assert cycle(database)["files"] == 10_000 * FILES


@pytest.mark.soak
def test_fifty_thousand_of_a_million_jobs_are_ended() -> None:
    stats = measure(JOBS, DUE)
    assert (stats["due"], stats["acted"], stats["files"], stats["left"]) == (DUE, DUE, DUE * FILES, 0)
