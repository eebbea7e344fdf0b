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


def test_the_figures_are_those_of_the_record(database: Database) -> None:
    assert save(database, 1)
    with database.read_snapshot() as connection:
        found = status_reports.stats(connection, [1, 2], NOW)
    assert set(found) == {1}
    assert (found[1].kill_waste, found[1].draining_waste, found[1].remaining_time) == (4800, 18000, 4000)


def test_the_newest_record_counts(database: Database) -> None:
    assert save(database, 1)
    assert not save(database, 1, NOW - timedelta(seconds=1), used_CPU="1")
    assert save(database, 1, NOW + timedelta(seconds=1), used_CPU="0", add_uncom_time="0")
    with database.read_snapshot() as connection:
        assert status_reports.stats(connection, [1], NOW) == {}  # reported later than that
        assert status_reports.stats(connection, [1], NOW + timedelta(seconds=1))[1].kill_waste == 0


@pytest.mark.parametrize(("age_s", "known"), [(600, True), (601, False)])
def test_an_old_record_says_nothing_about_losses(database: Database, age_s: int, known: bool) -> None:
    save(database, 1, NOW - timedelta(seconds=age_s))
    with database.read_snapshot() as connection:
        found = status_reports.stats(connection, [1], NOW)[1]
    assert (found.kill_waste is not None) is known
    assert found.remaining_time == 4000


def test_jobs_that_lose_little_are_moved_first(database: Database) -> None:
    save(database, 1)
    save(database, 2, used_CPU="1", add_uncom_time="0")
    save(database, 3, used_CPU="1", add_uncom_time="0")
    with database.read_snapshot() as connection:
        found = status_reports.stats(connection, [1, 2, 3, 4, 5], NOW)
    assert least_waste_first([5, 1, 4, 3, 2], found) == [3, 2, 1, 5, 4]
    assert least_waste_first([5, 4], {}) == [5, 4]
    assert least_waste_first([1, 2], found, "drain") == [1, 2]
