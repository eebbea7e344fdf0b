from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from broker.formats.model.job_status import parse
from broker.formats.model.vacate import least_waste_first
from broker.formats.statements import status_reports
from broker.store.connection.database import Database
from tests.formats.contract_cases import cases, contents

NOW = datetime.fromtimestamp(1_700_000_000, UTC)
RECORD = cases("job_status")["record"]


def save(database: Database, pandaid: int, when: datetime = NOW, **changes: str) -> bool:
    with database.begin() as connection:
        return status_reports.save(connection, pandaid, parse(contents({**RECORD, **changes})), 8, when)


def test_the_figures_come_from_the_record(database: Database) -> None:
    assert save(database, 1)
    with database.read_snapshot() as connection:
        stats = status_reports.stats(connection, [1, 2], NOW)
    assert set(stats) == {1}
    assert (stats[1].kill_waste, stats[1].draining_waste, stats[1].remaining_time) == (4800, 18000, 4000)


def test_the_newest_record_counts(database: Database) -> None:
    assert save(database, 1)
    assert not save(database, 1, NOW - timedelta(seconds=1), used_CPU="1")
    assert save(database, 1, NOW + timedelta(seconds=1), used_CPU="0", add_uncom_time="0")
    with database.read_snapshot() as connection:
        assert status_reports.stats(connection, [1], NOW) == {}  # reported after that time
        assert status_reports.stats(connection, [1], NOW + timedelta(seconds=1))[1].kill_waste == 0


@pytest.mark.parametrize(("age_s", "is_known"), [(600, True), (601, False)])
def test_an_old_record_gives_no_losses(database: Database, age_s: int, is_known: bool) -> None:
    save(database, 1, NOW - timedelta(seconds=age_s))
    with database.read_snapshot() as connection:
        stats = status_reports.stats(connection, [1], NOW)[1]
    assert (stats.kill_waste is not None) is is_known
    assert stats.remaining_time == 4000


def test_jobs_with_small_losses_are_moved_first(database: Database) -> None:
    save(database, 1)
    save(database, 2, used_CPU="1", add_uncom_time="0")
    save(database, 3, used_CPU="1", add_uncom_time="0")
    with database.read_snapshot() as connection:
        stats = status_reports.stats(connection, [1, 2, 3, 4, 5], NOW)
    assert least_waste_first([5, 1, 4, 3, 2], stats) == [3, 2, 1, 5, 4]
    assert least_waste_first([5, 4], {}) == [5, 4]
    assert least_waste_first([1, 2], stats, "drain") == [1, 2]
