"""``broker what-if --queue``: a field of a queue at another value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.brokerages.small_grid import NOW, one_cycle
from tests.cli.commands import Command, runner
from tests.whatif.stored import SEED, job_scenario

pytestmark = pytest.mark.slow

AT = ("--at", NOW.isoformat(), "--processes", "1")


@pytest.fixture
def what_if(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    assert one_cycle(database, job_scenario(), seed=SEED)[0].outcome == "done"
    return runner(capsys, "--db", database.url, "what-if")


def total(result: Any) -> dict[str, Any]:
    assert result.status == 0, result.err
    document: dict[str, Any] = json.loads(result.out.splitlines()[-1])
    return document


def test_a_closed_queue_gets_no_jobs_and_the_name_is_found_in_any_case(what_if: Command) -> None:
    before = total(what_if("MIN_WEIGHT_managed=0", *AT, "--json"))
    queue = max(before["queues"], key=lambda name: before["queues"][name]["jobs_before"])
    unified = queue.partition("/")[0]
    closed = total(what_if("--queue", unified.lower(), "status=offline", *AT, "--json"))
    assert before["queues"][queue]["jobs_before"] > 0
    assert closed["queues"][queue]["jobs_after"] == 0
    assert closed["queues"][queue]["lost"] > 0
    assert closed["queues_changed"] == {unified.lower(): {"status": "offline"}}
    assert closed["baseline"]["cycles"] == 1


def test_memory_of_a_queue_and_a_key_together(what_if: Command) -> None:
    queue = next(iter(total(what_if("MIN_WEIGHT_managed=0", *AT, "--json"))["queues"])).partition("/")[0]
    small = total(what_if("--queue", queue, "maxrss=1", "--set", "NQUEUED_SAT_CAP=149", *AT, "--json"))
    assert any(entry["lost"] for name, entry in small["queues"].items() if name.startswith(queue))
    assert small["set"] == {"NQUEUED_SAT_CAP": 149}
    table = what_if("--queue", queue, "maxrss=1", *AT).out
    assert f"{queue} maxrss=1" in table and "Baseline: tuning version 1" in table and " %" in table


def test_fields_that_cannot_be_pinned_can_be_tried(what_if: Command) -> None:
    queue = next(iter(total(what_if("MIN_WEIGHT_managed=0", *AT, "--json"))["queues"])).partition("/")[0]
    bare = total(what_if("--queue", queue, "bareNucleus=only", *AT, "--json"))
    assert any(entry["lost"] for name, entry in bare["queues"].items() if name.startswith(queue))
    unchanged = total(what_if("--queue", queue, "useJumboJobs=false", "releases=Atlas-25", *AT, "--json"))
    assert unchanged["queues_changed"] == {queue: {"useJumboJobs": False, "releases": "Atlas-25"}}


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("--queue", "NOWHERE", "maxrss=5"), 4, "there is no queue NOWHERE"),
        (("--queue", "Q", "maxrss=many"), 2, "a whole number of MB"),
        (("--queue", "Q", "maxrss=-1"), 2, "from 0 to"),
        (("--queue", "Q", "colour=red"), 2, "fields are status"),
        (("--queue", "Q", "maxrss"), 2, "write it as"),
        (("--queue", "Q", "maxrss=1", "maxrss=2"), 2, "name it once"),
        (("--queue", "Q"), 2, "nothing to compare with"),
        (("NOT_A_KEY=5",), 4, "not a key"),
    ],
)
def test_bad_requests(what_if: Command, words: tuple[str, ...], status: int, message: str) -> None:
    result = what_if(*words, *AT)
    assert (result.status, result.out) == (status, "")
    assert message in result.err
