"""What a cycle of analysis places counts for the tasks that follow: queue, user, and the user's room."""

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
from tests.brokerages.analysis_grid import chosen, config_row, decisions, several, user_jobs
from tests.brokerages.small_grid import TASK, next_cycle

#: A chunk of the second block must find what one of the first placed, under its own row.
pytestmark = pytest.mark.usefixtures("blocks")

ONLY_ALPHA = {"taskparams": {"includedSite": "ALPHA_MCORE"}}
BOB = ONLY_ALPHA | {"username": "bob"}


def note_of(database: Database, task: int) -> str:
    """The figures of the stabilizer at ALPHA_MCORE, as they are kept with the decision."""
    with database.begin() as connection:
        (stored,) = latest(connection, task)
    (note,) = (one for one in stored.record.decision.notes if one.startswith("stabilizer:ALPHA_MCORE"))
    return note


@pytest.mark.parametrize(
    ("files", "who", "code"),
    [
        # 2 x max(20, 0 running) = 40 may wait
        (40, BOB, None),
        (41, BOB, "queue_cap"),
        # the user may have 100 queued while nothing runs; the last rule that rejects is shown
        (100, ONLY_ALPHA, "queue_cap"),
        (101, ONLY_ALPHA, "user_queue_length"),
    ],
)
def test_jobs_of_the_same_cycle_count(database: Database, files: int, who: dict[str, Any], code: str | None) -> None:
    loaded = several(ONLY_ALPHA | {"currentpriority": 900}, who, files=files, here=("ALPHA",))
    first, second = decisions(database, loaded)
    assert first["assigned"] == {"ALPHA_MCORE": files}
    assert second["rejected"].get("ALPHA_MCORE") == code
    assert second["outcome"] == ("pending" if code else "brokered")
    if code:
        (answer,) = answers_about(database, TASK + 1, "ALPHA_MCORE")
        assert (answer.code, answer.observation is not None and answer.observation.value) == (code, files)


def test_jobs_of_an_earlier_block_count(database: Database) -> None:
    """41 jobs to ALPHA in the first block; the third chunk, alone in the second, finds them there and goes to BETA.

    BETA has none of them: (0 + 1) / (0 + 1).
    """
    beta = {"taskparams": {"includedSite": "BETA"}, "gshare": "Express Analysis", "currentpriority": 800}
    loaded = several(ONLY_ALPHA | {"currentpriority": 900}, beta, {"username": "bob"}, files=41, here=("ALPHA", "BETA"))
    first, second, third = decisions(database, loaded)
    assert (first["assigned"], second["assigned"]) == ({"ALPHA_MCORE": 41}, {"BETA/SCORE": 41})
    assert third["rejected"]["ALPHA_MCORE"] == "queue_cap"
    assert chosen(third) == {"BETA/SCORE": 1.0}


def test_every_task_meets_the_same_grid_when_asked_to(database: Database) -> None:
    loaded = several(ONLY_ALPHA, ONLY_ALPHA, files=150, here=("ALPHA",))
    assert [one["outcome"] for one in decisions(database, loaded, independent=True)] == ["brokered", "brokered"]


def test_the_room_of_the_user_shrinks_within_the_cycle(database: Database) -> None:
    """4 jobs to ALPHA, then 4 of the same user to ALPHA or BETA: rooms 96 and 100.

    W_q = (96 - 4 / 2) / (196 - 4) and (100 - 2) / 192; class A, queues mid: W_s = 0.05.
    """
    both = {"taskparams": {"includedSite": "ALPHA_MCORE,BETA"}}
    loaded = several(
        ONLY_ALPHA | {"currentpriority": 900},
        both,
        both | {"username": "bob"},
        here=("ALPHA", "BETA"),
        config=[config_row("NEW_BASIC_WEIGHT", "true", "boolean")],
    )
    decided = decisions(database, loaded)
    least = 2.0**-20
    second = {"ALPHA_MCORE": 0.05 * 94 / 192 + least, "BETA/SCORE": 0.05 * 98 / 192 + least}
    assert chosen(decided[1]) == pytest.approx(second, rel=1e-12)
    # of bob's two queues one is alice's as well, and neither has a job of his
    assert "nQ=4 " in note_of(database, TASK + 1) and "nQ_user=4 " in note_of(database, TASK + 1)
    assert "nQ_user=0 " in note_of(database, TASK + 2)
    factors = {one["name"]: one["factors"]["new_basic_weight"] for one in decided[1]["candidates"]}
    assert factors == pytest.approx(second, rel=1e-12)


def test_a_user_who_comes_within_the_cycle_is_one_more_among_whom_the_queue_is_shared(database: Database) -> None:
    """ALPHA: 60 running jobs of carol, nQ_max 120; bob has 50 queued. Of two users he may have 60, of three 40."""
    busy = user_jobs("ALPHA_MCORE", 1000, "carol", running=60, activated=55)
    busy += user_jobs("ALPHA_MCORE", 2000, "bob", activated=50)
    loaded = several(ONLY_ALPHA | {"currentpriority": 900}, BOB, here=("ALPHA",), jobsactive4=busy)
    assert [one["outcome"] for one in decisions(database, loaded, independent=True)] == ["brokered", "brokered"]
    _, (first, second) = next_cycle(database, agent="analysis_job")
    assert (first["outcome"], second["rejected"]["ALPHA_MCORE"]) == ("brokered", "user_queue_length")
    (answer,) = answers_about(database, TASK + 1, "ALPHA_MCORE")
    assert answer.observation is not None
    assert (answer.observation.inputs["nUsers"], answer.observation.limit) == (3, 40)


def test_what_was_placed_before_is_restored_exactly(database: Database) -> None:
    """Decided again as stored, each task meets what it met: twice restored is not twice placed."""
    loaded = several(ONLY_ALPHA | {"currentpriority": 900}, ONLY_ALPHA, BOB, files=60, here=("ALPHA",))
    decisions(database, loaded)
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
