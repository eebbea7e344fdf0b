"""Placements of an analysis cycle count for later tasks: for the queue, the user, and the user's room."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from broker.brokerages.analysis_job.brokerage import chain
from broker.codec.work_codec import decode_load, decode_work
from broker.decisions.answers.explain import answers_about
from broker.domain.counted_load import CountedLoad
from broker.engine.analysis.cycle import AnalysisCycle
from broker.gdpconfig import Tuning
from broker.store.connection.database import Database
from broker.store.decisions.decision_rows import latest
from broker.store.snapshots.stored_snapshots import stored_snapshot
from tests.brokerages.analysis_grid import analysis_tasks, config_row, decide_all, user_jobs, weights_of
from tests.brokerages.small_grid import TASK, next_cycle

#: A chunk of the second block must see the placements of the first block under its own row.
pytestmark = pytest.mark.usefixtures("blocks")

ONLY_ALPHA = {"taskparams": {"includedSite": "ALPHA_MCORE"}}
BOB = ONLY_ALPHA | {"username": "bob"}


def note_of(database: Database, task: int) -> str:
    """Return the stabilizer figures for ALPHA_MCORE that are stored with the decision."""
    with database.begin() as connection:
        (stored,) = latest(connection, task)
    (note,) = (line for line in stored.record.decision.notes if line.startswith("stabilizer:ALPHA_MCORE"))
    return note


@pytest.mark.parametrize(
    ("files", "second_task", "code"),
    [
        # 2 x max(20, 0 running) = 40 jobs may wait
        (40, BOB, None),
        (41, BOB, "queue_cap"),
        # the user may have 100 queued jobs while none run; the last rejecting rule is shown
        (100, ONLY_ALPHA, "queue_cap"),
        (101, ONLY_ALPHA, "user_queue_length"),
    ],
)
def test_jobs_of_the_same_cycle_count(
    database: Database, files: int, second_task: dict[str, Any], code: str | None
) -> None:
    grid = analysis_tasks(ONLY_ALPHA | {"currentpriority": 900}, second_task, files=files, sites=("ALPHA",))
    first, second = decide_all(database, grid)
    assert first["assigned"] == {"ALPHA_MCORE": files}
    assert second["rejected"].get("ALPHA_MCORE") == code
    assert second["outcome"] == ("pending" if code else "brokered")
    if code:
        (answer,) = answers_about(database, TASK + 1, "ALPHA_MCORE")
        assert (answer.code, answer.observation is not None and answer.observation.value) == (code, files)


def test_jobs_of_an_earlier_block_count(database: Database) -> None:
    """The first block places 41 jobs at ALPHA; the third chunk, alone in the second block, sees them and goes to BETA.

    BETA has no jobs of its share: (0 + 1) / (0 + 1).
    """
    beta = {"taskparams": {"includedSite": "BETA"}, "gshare": "Express Analysis", "currentpriority": 800}
    grid = analysis_tasks(
        ONLY_ALPHA | {"currentpriority": 900}, beta, {"username": "bob"}, files=41, sites=("ALPHA", "BETA")
    )
    first, second, third = decide_all(database, grid)
    assert (first["assigned"], second["assigned"]) == ({"ALPHA_MCORE": 41}, {"BETA/SCORE": 41})
    assert third["rejected"]["ALPHA_MCORE"] == "queue_cap"
    assert weights_of(third) == {"BETA/SCORE": 1.0}


def test_every_task_meets_the_same_grid_in_an_independent_cycle(database: Database) -> None:
    grid = analysis_tasks(ONLY_ALPHA, ONLY_ALPHA, files=150, sites=("ALPHA",))
    assert [decision["outcome"] for decision in decide_all(database, grid, independent=True)] == [
        "brokered",
        "brokered",
    ]


def test_the_room_of_the_user_shrinks_within_the_cycle(database: Database) -> None:
    """4 jobs go to ALPHA, then 4 of the same user to ALPHA or BETA, with rooms of 96 and 100.

    W_q = (96 - 4 / 2) / (196 - 4) and (100 - 2) / 192; class A, queues mid: W_s = 0.05.
    """
    both = {"taskparams": {"includedSite": "ALPHA_MCORE,BETA"}}
    grid = analysis_tasks(
        ONLY_ALPHA | {"currentpriority": 900},
        both,
        both | {"username": "bob"},
        sites=("ALPHA", "BETA"),
        config=[config_row("NEW_BASIC_WEIGHT", "true", "boolean")],
    )
    decisions = decide_all(database, grid)
    least = 2.0**-20
    second = {"ALPHA_MCORE": 0.05 * 94 / 192 + least, "BETA/SCORE": 0.05 * 98 / 192 + least}
    assert weights_of(decisions[1]) == pytest.approx(second, rel=1e-12)
    # bob shares one of his two queues with alice, and has no job at either
    assert "nQ=4 " in note_of(database, TASK + 1) and "nQ_user=4 " in note_of(database, TASK + 1)
    assert "nQ_user=0 " in note_of(database, TASK + 2)
    factors = {candidate["name"]: candidate["factors"]["new_basic_weight"] for candidate in decisions[1]["candidates"]}
    assert factors == pytest.approx(second, rel=1e-12)


def test_a_user_who_appears_within_the_cycle_counts_in_the_split_of_the_queue(database: Database) -> None:
    """ALPHA runs 60 jobs of carol, so nQ_max is 120. bob has 50 queued: of two users he may have 60, of three 40."""
    busy = user_jobs("ALPHA_MCORE", 1000, "carol", running=60, activated=55)
    busy += user_jobs("ALPHA_MCORE", 2000, "bob", activated=50)
    grid = analysis_tasks(ONLY_ALPHA | {"currentpriority": 900}, BOB, sites=("ALPHA",), jobsactive4=busy)
    assert [decision["outcome"] for decision in decide_all(database, grid, independent=True)] == [
        "brokered",
        "brokered",
    ]
    _, (first, second) = next_cycle(database, agent="analysis_job")
    assert (first["outcome"], second["rejected"]["ALPHA_MCORE"]) == ("brokered", "user_queue_length")
    (answer,) = answers_about(database, TASK + 1, "ALPHA_MCORE")
    assert answer.observation is not None
    assert (answer.observation.inputs["nUsers"], answer.observation.limit) == (3, 40)


def test_the_load_placed_before_is_restored_exactly(database: Database) -> None:
    """Deciding again as stored, each task sees the same load; restoring it twice does not count it twice."""
    grid = analysis_tasks(ONLY_ALPHA | {"currentpriority": 900}, ONLY_ALPHA, BOB, files=60, sites=("ALPHA",))
    decide_all(database, grid)
    with database.begin() as connection:
        works = [
            (decode_work(bytes(data)), decode_load(bytes(data)))
            for (data,) in connection.execute(sa.text("SELECT work FROM broker.decisions ORDER BY jeditaskid"))
        ]
        (identifier,) = connection.execute(sa.text("SELECT DISTINCT snapshot FROM broker.decisions")).scalars()
        snapshot = stored_snapshot(connection, identifier)
    assert not works[0][1]
    for work, placed in works[1:]:
        cycle = AnalysisCycle(snapshot, work, Tuning.defaults(), chain())
        cycle.set_load(0, placed)
        cycle.set_load(0, placed)
        assert cycle.load_before(0) == placed
    jobs, users = {"ALPHA_MCORE": 60}, {"ALPHA_MCORE": 1}
    assert works[1][1] == CountedLoad(jobs, of_user=jobs, of_type=jobs, new_users=users)
    assert works[2][1] == CountedLoad(jobs, of_type=jobs, new_users=users)
