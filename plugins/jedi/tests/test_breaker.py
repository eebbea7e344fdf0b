"""A database that does not answer: after three time-outs in a row nobody waits, and the server ends the statements."""

from __future__ import annotations

from typing import Any

import plugged
import psycopg2
from gridbroker_jedi.breaker import Breaker
from grids.generator import scenario
from panda.loading import plain

_WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE application_name = 'gridbroker-jedi' AND datname = current_database() AND wait_event_type = 'Lock'"""


class Ticks:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_two_timeouts_do_not_shut_and_three_do() -> None:
    ticks = Ticks()
    breaker = Breaker(30.0, ticks)
    breaker.timed_out()
    breaker.timed_out()
    assert breaker.shut is None
    breaker.answered()
    breaker.timed_out()
    breaker.timed_out()
    assert breaker.shut is None
    breaker.timed_out()
    assert breaker.shut == "breaker"
    ticks.now += 29.9
    assert breaker.shut == "breaker"
    ticks.now += 0.1
    assert breaker.shut is None
    breaker.timed_out()
    assert breaker.shut == "breaker"  # the one that tried again was not answered either


def test_a_database_that_is_not_reached_shuts_at_once() -> None:
    breaker = Breaker(30.0, Ticks())
    breaker.unreachable()
    assert breaker.shut == "unreachable"


def test_a_locked_table_costs_three_waits_and_no_connection(make_site: Any, use_service: Any) -> None:
    site, ticks = make_site(scenario(0, "analysis_job")), Ticks()
    service = use_service(site.url, ticks, fallback="wait")
    plugged.configure()
    (task,) = site.rows("SELECT min(jeditaskid) FROM doma_panda.jedi_tasks")[0]
    items = plugged.chunks(site, task)[0]
    broker = plugged.broker_for(site, items[0])

    def said() -> str:
        items[0].errorDialog = None
        broker.doBrokerage(*items, None)
        return str(items[0].errorDialog)

    said()
    service.settings = service.settings.model_copy(update={"timeout_s": 0.3})
    other = psycopg2.connect(plain(site.url))
    with other, other.cursor() as cursor:
        cursor.execute("LOCK TABLE doma_panda.jedi_taskparams IN ACCESS EXCLUSIVE MODE")
        assert ["timeout" in said() for _ in range(3)] == [True] * 3
        assert "breaker" in said()
        ticks.now += 31
        assert "timeout" in said() and "breaker" in said()
    other.close()
    service.settings = service.settings.model_copy(update={"timeout_s": 60.0})
    ticks.now += 31
    assert "no decision" not in said()
    service.close()
    assert site.rows(_WAITING) == [(0,)]
    calls = dict(site.rows("SELECT reason, calls FROM broker.plugin_calls WHERE outcome = 'waits'"))
    assert calls == {"timeout": 4, "breaker": 2}
