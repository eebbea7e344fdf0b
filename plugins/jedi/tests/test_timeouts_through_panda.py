"""The agent of timeouts asks PanDA's real functions: the role decides, and the role comes from the origin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from grids.generator import scenario
from panda import task_buffer
from panda.server import panda_server

from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.service.cycle import open_run, run_cycle
from broker.store.connection.database import Database
from broker.store.service import leases
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import LeaseTerms

JOBS = 25
DUE = """
UPDATE doma_panda.jobsdefined4 SET creationtime = '2026-07-01', modificationtime = '2026-07-01', lockedby = 'jedi',
    prodsourcelabel = 'managed', jobstatus = 'assigned', produserid = 'somebody else'
WHERE pandaid IN (SELECT pandaid FROM doma_panda.jobsdefined4 ORDER BY pandaid LIMIT 25)"""
KEEP = "DELETE FROM doma_panda.jobsdefined4 WHERE creationtime > '2026-07-02'"
ENDED = (
    """SELECT jobstatus, jobsubstatus, taskbuffererrorcode, count(*) FROM doma_panda.jobsarchived4 GROUP BY 1, 2, 3"""
)
Ask = Callable[..., RunRecord]


@pytest.fixture
def site(make_site: Any) -> Any:
    made = make_site(scenario(1, "production_job"))
    made.run("DELETE FROM doma_panda.jobsactive4")
    made.run(DUE)
    made.run(KEEP)
    assert made.rows("SELECT count(*) FROM doma_panda.jobsdefined4") == [(JOBS,)]
    return made


@pytest.fixture
def query_demo(site: Any, tmp_path: Path) -> Iterator[Ask]:
    """Runs a cycle with a token and an origin."""
    from datetime import UTC

    from panda.installation import CLOCK

    def run(groups: tuple[str, ...], **options: Any) -> RunRecord:
        file = tmp_path / "token"
        file.write_text(panda.token(*groups), encoding="ascii")
        server = {"address": panda.address, "requests_per_s": 100.0, "bearer_token_file": str(file), **options}
        agent = registry.make("timeouts", {"through": "panda_api", "panda_api": server}, ProcessSettings())
        now = CLOCK.now.replace(tzinfo=UTC)
        with Database(site.url) as database:
            with database.begin() as connection:
                connection.exec_driver_sql("DELETE FROM broker.leases")
                lease = leases.acquire(connection, "timeouts", "test", LeaseTerms(length_s=60.0)).lease
            assert lease is not None
            run_id = open_run(database, "timeouts", lease)
            request = CycleRequest(None, by_hand=True)
            return run_cycle(agent, CycleContext(database, now, 1, 60.0, request, lease=lease, run_id=run_id))

    connection = task_buffer.connect(site.url)
    with panda_server(task_buffer.task_buffer(connection)) as panda:
        yield run
    connection.close()


MEMBER = ("atlas", "atlas/production")


def test_with_role_in_the_origin_panda_ends_the_jobs_once(site: Any, query_demo: Ask) -> None:
    record = query_demo(MEMBER, origin="atlas:production")
    assert (record.outcome, record.error) == ("done", None)
    assert (record.counts["due"], record.counts["reassigned"], record.counts["skipped"]) == (JOBS, JOBS, 0)
    assert site.rows(ENDED) == [("closed", "toreassign", 100, JOBS)]
    again = query_demo(MEMBER, origin="atlas:production")
    assert (again.outcome, again.counts["due"]) == ("done", 0)


def test_without_role_in_the_origin_the_error_names_both(site: Any, query_demo: Ask) -> None:
    """PanDA answers success, with False for each job: the token has the role, but nobody has asked for it."""
    record = query_demo(MEMBER, origin="atlas")
    assert record.outcome != "done"
    for said in (f"refused all of {JOBS} jobs", "Grid Broker", "no production role (origin atlas)", "atlas:production"):
        assert said in str(record.error)
    assert site.rows(ENDED) == []


@pytest.mark.parametrize(
    ("groups", "origin", "said"),
    [
        (("atlas",), "atlas:production", "Not a member of the atlas/production group"),
        (MEMBER, "cms:production", "Unknown vo : cms"),
        (MEMBER, None, "Token authentication failed"),
    ],
)
def test_a_token_that_panda_refuses_is_an_error_with_its_words(
    site: Any, query_demo: Ask, groups: tuple[str, ...], origin: str | None, said: str
) -> None:
    record = query_demo(groups, **({} if origin is None else {"origin": origin}))
    assert record.outcome != "done" and said in str(record.error), record.error
    assert site.rows(ENDED) == []
