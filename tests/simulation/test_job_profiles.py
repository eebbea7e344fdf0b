"""Profiles counted in the database equal those counted from records of the same jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from broker.cli.main import main
from broker.simulation.model.calibration.records import profiles_of, read_records
from broker.simulation.statements.job_profiles import job_profiles
from broker.store.connection.database import Database
from tests.conftest import TestServer

END = datetime(2026, 8, 3, 12, tzinfo=UTC)
INSERT = """
INSERT INTO {panda}.jobsarchived4 (pandaid, jeditaskid, computingsite, jobstatus, starttime, endtime, modificationtime,
    cpuconsumptiontime, actualcorecount, maxrss, minramcount, piloterrorcode, transexitcode)
VALUES (:pandaid, :task, :queue, :status, :start, :end, :end, :cpu, :cores, :rss, :asked, :pilot, :exit)"""
HEAD = (
    "jeditaskid,computingsite,jobstatus,wall_time,cpuconsumptiontime,actualcorecount,maxrss,minramcount,"
    "piloterrorcode,transexitcode\n"
)


@pytest.fixture(scope="module")
def database(test_server: TestServer) -> Iterator[Database]:
    with test_server.opened(test_server.create()) as database:
        with database.begin() as connection:
            statement = sa.text(database.names.sql(INSERT))
            for number in range(120):
                connection.execute(statement, job(number))
            for number, status in ((500, "closed"), (501, "cancelled")):
                connection.execute(statement, {**job(number), "status": status})
            late = {**job(502), "end": END.replace(tzinfo=None)}
            connection.execute(statement, late)
        yield database


def job(number: int) -> dict[str, object]:
    failed = number % 7 == 0
    end = END.replace(tzinfo=None) - timedelta(minutes=number % 100 + 1)
    return {
        "pandaid": number + 1, "task": 1 + number % 2, "queue": ("A", "B", "A")[number % 3],
        "status": "failed" if failed else "finished", "start": end - timedelta(seconds=100 + 7 * number), "end": end,
        "cpu": 50 + 3 * number, "cores": 1 + 7 * (number % 2), "rss": 1024 * (900 + number), "asked": 2000,
        "pilot": 1305 if failed else 0, "exit": "137" if number % 14 == 0 else None,
    }  # fmt: skip


def test_tables_and_records_give_the_same_profiles(database: Database) -> None:
    lines = []
    for number in range(120):
        row = job(number)
        lines.append(
            f"{row['task']},{row['queue']},{row['status']},{100 + 7 * number},{row['cpu']},{row['cores']},{row['rss']},"
            f"{row['asked']},{row['pilot']},{row['exit'] or 0}"
        )
    expected = profiles_of(read_records(HEAD + "\n".join(lines), "x"), "x")
    with database.read_snapshot() as connection:
        profiles = job_profiles(connection, database.names, END - timedelta(days=1), END)
    assert profiles["source"].startswith("jobsarchived4 from 2026-08-02")
    for part in ("labels", "queues"):
        assert len(profiles[part]) == len(expected[part]) == 2
        for actual, reference in zip(profiles[part], expected[part], strict=True):
            assert actual.keys() == reference.keys()
            for key, value in actual.items():
                close = isinstance(value, list)
                assert value == (pytest.approx(reference[key]) if close else reference[key]), key


def test_the_command_fits_own_jobs(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    span = ("--from", "2026-08-02T12:00", "--to", "2026-08-03T12:00")
    with pytest.raises(SystemExit) as exit_info:
        main(["--db", database.url, "calibrate", *span, "--json"])
    output = capsys.readouterr()
    assert exit_info.value.code == 0, output.err
    summary = json.loads(output.out)
    assert (summary["kinds"], summary["jobs"], summary["classes"]) == (2, 120, 2)
    with pytest.raises(SystemExit) as exit_info:
        main(["--db", database.url, "calibrate", "--from", "2026-08-03T12:00", "--to", "2026-08-02T12:00"])
    assert exit_info.value.code == 3
