"""The benchmark of the timeouts runs, at its full size too."""

from __future__ import annotations

import pytest

from benchmarks.bench_timeouts import DUE, FILES, JOBS, cycle, fill, measure, scan
from broker.store.connection.database import Database


def test_a_part_of_its_jobs_is_due_and_is_ended(database: Database) -> None:
    fill(database, 3000, 200)
    assert scan(database) == 200
    done = cycle(database)
    assert (done["due"], done["reassigned"], done["failed"], done["files"]) == (200, 100, 100, 200 * FILES)
    assert scan(database) == 0


@pytest.mark.slow
def test_more_files_than_a_smallint_holds(database: Database) -> None:
    fill(database, 10_000, 10_000)
    assert scan(database) == 10_000
    assert cycle(database)["files"] == 10_000 * FILES


@pytest.mark.soak
def test_a_million_jobs_are_judged_and_fifty_thousand_ended() -> None:
    stats = measure(JOBS, DUE)
    assert (stats["due"], stats["acted"], stats["files"], stats["left"]) == (DUE, DUE, DUE * FILES, 0)
