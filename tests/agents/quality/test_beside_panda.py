"""PanDA's placements of the chunks of a cycle that was only recorded, priced beside ours."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from broker.flow.answers.quality import Quality, quality
from broker.service.answers.alarm_limits import AlarmLimits
from broker.store.connection.database import Database
from tests.agents.quality.measuring_cycles import FILES, IN_PROCESS, answer_at, cycle_of, fill
from tests.brokerages.small_grid import GB, NOW, TASK

LIMITS = AlarmLimits().drift
_JOB = sa.text("""
    INSERT INTO doma_panda.jobsdefined4 (pandaid, jeditaskid, computingsite, gshare, prodsourcelabel, lockedby,
        creationtime) VALUES (:job, :task, :queue, 'MC', 'managed', 'jedi', :at)""")
_FILE = sa.text("""
    INSERT INTO doma_panda.filestable4 (row_id, pandaid, jeditaskid, datasetid, fileid, type, fsize, modificationtime)
    SELECT :job, :job, jeditaskid, datasetid, fileid, 'input', fsize, :at
    FROM doma_panda.jedi_dataset_contents WHERE jeditaskid = :task ORDER BY fileid OFFSET :number LIMIT 1""")


def place_jobs(database: Database, queues: dict[str, int], task: int = TASK, minutes: float = 5.0) -> None:
    """Insert jobs of a task, a number at each queue, which JEDI made ``minutes`` after noon."""
    at: datetime = (NOW + timedelta(minutes=minutes)).replace(tzinfo=None)
    names = [name for name, count in queues.items() for _ in range(count)]
    rows = [
        {"job": 1000 * task + number, "task": task, "queue": name, "at": at, "number": number}
        for number, name in enumerate(names)
    ]
    with database.begin() as connection:
        connection.execute(_JOB, rows)
        connection.execute(_FILE, rows)


def quality_beside(database: Database) -> Quality:
    """The answer after both agents ran: the cycle at once, PanDA's part a quarter of an hour later."""
    assert cycle_of(database, "decision_quality", 1, **IN_PROCESS).counts["beside_panda"] == 0
    assert cycle_of(database, "decision_quality", 16, **IN_PROCESS).counts["beside_panda"] == 1
    assert cycle_of(database, "decision_quality", 17, **IN_PROCESS).counts["beside_panda"] == 0, "once"
    answer: Quality = answer_at(database, 18, quality, LIMITS)
    return answer


def test_panda_moves_input_that_our_placement_leaves_in_place(database: Database, tmp_path: Path) -> None:
    fill(database, tmp_path)
    # the input of the first task is at BETA, and not at ALPHA
    place_jobs(database, {"ALPHA_MCORE": 40, "NOWHERE": 20})
    by_placer = {line.placer: line for line in quality_beside(database).cycles}
    comparison = by_placer["panda"].beside
    assert by_placer["panda"].state == "beside" and comparison is not None and by_placer["ours"].beside is None
    assert (comparison.chunks, by_placer["panda"].jobs) == (1, FILES)
    assert comparison.panda_gb == pytest.approx(20 * GB / 1e9 * FILES), "each job reads a file of 20 GB from elsewhere"
    assert comparison.gb == pytest.approx(comparison.panda_gb - comparison.our_gb, abs=0.01) and comparison.gb > 0
    parts = {line.cause: line for line in comparison.parts}
    assert set(parts) == {"time", "bytes", "wait", "share_debt"}
    assert comparison.time_hs06h == pytest.approx(parts["time"].panda_hs06h - parts["time"].ours_hs06h, abs=0.01)
    assert parts["bytes"].panda_hs06h > parts["bytes"].ours_hs06h
    assert {line.reason: line.jobs for line in comparison.unknown} == {"queue_not_in_snapshot": 20}


@pytest.mark.slow
@pytest.mark.parametrize(("queue", "reason"), [("NOWHERE", "queue_not_in_snapshot"), (None, None)])
def test_without_a_known_placement_nothing_is_compared(
    database: Database, tmp_path: Path, queue: str | None, reason: str | None
) -> None:
    fill(database, tmp_path)
    if queue is not None:
        place_jobs(database, {queue: 3})
    comparison = next(line.beside for line in quality_beside(database).cycles if line.placer == "panda")
    assert comparison is not None and comparison.chunks == 0 and comparison.time_hs06h == comparison.gb == 0.0
    assert [line.reason for line in comparison.unknown] == ([] if reason is None else [reason])


@pytest.mark.slow
@pytest.mark.parametrize(("minutes", "chunks"), [(-1.0, 0), (14.0, 1), (16.0, 0)])
def test_only_placements_by_panda_within_a_quarter_of_an_hour_count(
    database: Database, tmp_path: Path, minutes: float, chunks: int
) -> None:
    fill(database, tmp_path)
    place_jobs(database, {"ALPHA_MCORE": 3}, minutes=minutes)
    comparison = next(line.beside for line in quality_beside(database).cycles if line.placer == "panda")
    assert comparison is not None and comparison.chunks == chunks
