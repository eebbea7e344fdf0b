"""The usage of shares: running jobs relative to the target."""

from __future__ import annotations

from typing import Any

import pytest

from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.service.cycle import run_cycle
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from tests.agents.classified_grid import (
    SHARES,
    at,
    dry_cycle,
    metrics,
)
from tests.brokerages.small_grid import NOW, next_cycle
from tests.brokerages.test_analysis_scenarios import SHARE, analysis, user_jobs


def test_usage_is_running_jobs_relative_to_the_target_of_the_share(database: Database) -> None:
    """10 HS06 a core: 60 run for User Analysis, 40 for no share; 32 % of 100 are due. 20 wait; sent is running."""
    three = user_jobs("BETA", 50, running=3)
    jobs = [
        *user_jobs("ALPHA_MCORE", 1, running=2, sent=1, activated=2, starting=9, holding=9),
        *({**row, "corecount": cores} for row, cores in zip(three, (None, 0, 1), strict=True)),
        *user_jobs("ALPHA_MCORE", 60, share="Undefined", running=4),
        *user_jobs("NO_SUCH_QUEUE", 70, running=9),
    ]
    load(database, analysis(jobsactive4=jobs, global_shares=SHARES))
    record, objects = next_cycle(database, agent="share_usage")
    assert (record.outcome, record.counts) == ("done", {"shares": 5, "leaves": 3, "written": 5})
    written = metrics(database, "gshare_preference")
    assert sorted(written) == ["Express Analysis", "L1 Production", "L1 User Analysis", "Production", SHARE]
    user = written[SHARE]
    assert (user["running_hs"], user["queuing_hs"], user["rank"]) == (60, 20, 3)
    assert (user["target_hs"], user["usage_perc"]) == pytest.approx((32, 1.875))
    # the target of the top share is 40; Production leaves 60, of which 40 / 41 go to it
    assert written["L1 User Analysis"]["eqiv_usage_perc"] == pytest.approx(60 / (40 + 60 * 40 / 41))
    assert [item["gshare"] for item in objects][:3] == ["Express Analysis", "Production", SHARE]


def test_usage_by_the_statistics_of_panda(database: Database) -> None:
    """HS06 are used as PanDA stored them; a cycle with old or missing statistics is refused."""
    amounts = (("running", 30), ("sent", 2), ("activated", 5), ("holding", 9))
    rows = [{"gshare": SHARE, "jobstatus": status, "hs": hs, "computingsite": "X"} for status, hs in amounts]
    agent = registry.make("share_usage", {}, ProcessSettings(job_statistics="panda"))
    for stamp, outcome in ((at(60), "done"), (at(60.1), "refused"), (None, "refused")):
        load(
            database,
            analysis(jobs_share_stats=[row | {"ts": stamp} for row in rows], global_shares=SHARES),
            replace=True,
        )
        objects: list[dict[str, Any]] = []
        record = run_cycle(agent, CycleContext(database, NOW, 1, 60.0, CycleRequest(dry_run=True, emit=objects.append)))
        assert record.outcome == outcome
        usages = [(item["running_hs"], item["queuing_hs"]) for item in objects if item["gshare"] == SHARE]
        assert usages == ([(32, 5)] if outcome == "done" else [])


def test_bad_shares_are_left_out(database: Database) -> None:
    rows = [*SHARES, {"name": "Lost", "value": 5, "parent": "Nowhere"}, {"name": "Less", "value": -5, "parent": None}]
    load(database, analysis(global_shares=[*rows, {"name": "None", "value": None, "parent": None}]))
    record, objects = dry_cycle(database, "share_usage")
    assert record.notes == ("left out 1 x global_shares: negative", "left out 1 x global_shares: no_parent")
    assert {item["gshare"] for item in objects} >= {"None", "L1 None", SHARE}
