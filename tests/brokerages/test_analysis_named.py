"""Queues that tasks name, one cycle for all ways of naming them; each task has its input everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.brokerages.analysis_grid import ALL, chosen, decisions, several

pytestmark = pytest.mark.usefixtures("blocks")

GAMMA, OFF, PAUSED = "GAMMA_MCORE", "GAMMA_OFF", "GAMMA_TEST"


def asks(site: str | None = None, **lists: str) -> dict[str, Any]:
    return {"site": site, "taskparams": lists} if lists else {"site": site}


#: What a task asks for, and the queues it gets; GAMMA_TEST is paused here.
CASES: list[tuple[dict[str, Any], set[str]]] = [
    (asks(), ALL - {PAUSED}),
    # a named queue may be paused, but not offline
    (asks(PAUSED), {PAUSED}),
    (asks(OFF), set()),
    (asks(includedSite=f"{PAUSED},{OFF}"), {PAUSED}),
    (asks(includedSite="GAMMA*"), {GAMMA, PAUSED}),
    # AUTO: the reserve is not named, so it has to be online
    (asks(includedSite="nowhere,AUTO"), ALL - {PAUSED}),
    (asks(includedSite="AUTO"), ALL - {PAUSED}),
    (asks(includedSite=f"{OFF},AUTO"), ALL - {PAUSED}),
    # exclusion goes first, for a queue named by `site` too
    (asks(GAMMA, excludedSite="GAMMA*"), set()),
    (asks(GAMMA, includedSite="BETA"), set()),
    (asks(GAMMA, includedSite="BETA,AUTO"), set()),
    (asks(GAMMA, includedSite="nowhere,AUTO"), {GAMMA}),
    (asks(GAMMA, includedSite="GAMMA*"), {GAMMA}),
    # the name of an endpoint: no queue of scope analysis reads it, so the list stays in force
    (asks("GAMMA_DATADISK", includedSite="BETA"), {"BETA/SCORE"}),
    (asks("nowhere", includedSite="BETA"), {"BETA/SCORE"}),
    (asks(includedSite=","), set()),
]


def test_named_queues(database: Database) -> None:
    loaded = several(*(asked for asked, _ in CASES))
    loaded.tables["schedconfig_json"][4]["data"]["status"] = "paused"
    told = decisions(database, loaded, independent=True)
    assert [set(chosen(one)) for one in told] == [wanted for _, wanted in CASES]


def test_an_endpoint_replaces_the_list_and_names_no_queue(database: Database) -> None:
    loaded = several(
        asks("GAMMA_DATADISK", includedSite="BETA"),
        asks("GAMMA_DATADISK", excludedSite="*CORE"),
        asks("ALPHA_DATADISK"),
    )
    loaded.tables["schedconfig_json"][4]["data"]["status"] = "paused"
    for row in list(loaded.tables["panda_ddm_relation"]):
        if row["ddm_endpoint_name"] == "GAMMA_DATADISK":
            loaded.tables["panda_ddm_relation"].append(row | {"scope": "analysis"})
    told = decisions(database, loaded, independent=True)
    assert [set(chosen(one)) for one in told] == [{GAMMA}, set(), ALL - {PAUSED}]
