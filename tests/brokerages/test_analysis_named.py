"""Queues named by tasks, all ways of naming in one cycle; each task has its input everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.brokerages.analysis_grid import ALL, analysis_tasks, decide_all, weights_of

pytestmark = pytest.mark.usefixtures("blocks")

GAMMA, OFF, PAUSED = "GAMMA_MCORE", "GAMMA_OFF", "GAMMA_TEST"


def request(site: str | None = None, **lists: str) -> dict[str, Any]:
    return {"site": site, "taskparams": lists} if lists else {"site": site}


#: The request of a task, and the queues it gets; GAMMA_TEST is paused here.
CASES: list[tuple[dict[str, Any], set[str]]] = [
    (request(), ALL - {PAUSED}),
    # a named queue may be paused, but not offline
    (request(PAUSED), {PAUSED}),
    (request(OFF), set()),
    (request(includedSite=f"{PAUSED},{OFF}"), {PAUSED}),
    (request(includedSite="GAMMA*"), {GAMMA, PAUSED}),
    # AUTO: reserve queues are not named, so they must be online
    (request(includedSite="nowhere,AUTO"), ALL - {PAUSED}),
    (request(includedSite="AUTO"), ALL - {PAUSED}),
    (request(includedSite=f"{OFF},AUTO"), ALL - {PAUSED}),
    # exclusion comes first, also for a queue named by `site`
    (request(GAMMA, excludedSite="GAMMA*"), set()),
    (request(GAMMA, includedSite="BETA"), set()),
    (request(GAMMA, includedSite="BETA,AUTO"), set()),
    (request(GAMMA, includedSite="nowhere,AUTO"), {GAMMA}),
    (request(GAMMA, includedSite="GAMMA*"), {GAMMA}),
    # the name of an endpoint: no queue reads it in scope analysis, so the list stays in force
    (request("GAMMA_DATADISK", includedSite="BETA"), {"BETA/SCORE"}),
    (request("nowhere", includedSite="BETA"), {"BETA/SCORE"}),
    (request(includedSite=","), set()),
]


def test_named_queues(database: Database) -> None:
    grid = analysis_tasks(*(columns for columns, _ in CASES))
    grid.tables["schedconfig_json"][4]["data"]["status"] = "paused"
    decisions = decide_all(database, grid, independent=True)
    assert [set(weights_of(decision)) for decision in decisions] == [expected for _, expected in CASES]


def test_an_endpoint_replaces_the_list_and_names_no_queue(database: Database) -> None:
    grid = analysis_tasks(
        request("GAMMA_DATADISK", includedSite="BETA"),
        request("GAMMA_DATADISK", excludedSite="*CORE"),
        request("ALPHA_DATADISK"),
    )
    grid.tables["schedconfig_json"][4]["data"]["status"] = "paused"
    for row in list(grid.tables["panda_ddm_relation"]):
        if row["ddm_endpoint_name"] == "GAMMA_DATADISK":
            grid.tables["panda_ddm_relation"].append(row | {"scope": "analysis"})
    decisions = decide_all(database, grid, independent=True)
    assert [set(weights_of(decision)) for decision in decisions] == [{GAMMA}, set(), ALL - {PAUSED}]
