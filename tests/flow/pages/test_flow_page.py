"""The page of a task whose cycle placed the jobs of all chunks jointly."""

from __future__ import annotations

import time
from pathlib import Path

from broker.web.mounting import page_parts
from tests.api.serving import TOKEN, client_of, serving, shipped
from tests.brokerages.small_grid import TASK, one_cycle
from tests.brokerages.stored_grids import SEED, flow_scenario
from tests.conftest import TestServer
from tests.web.conftest import BROWSER


def test_page_and_json_show_reduced_costs_and_binding_limits(test_server: TestServer, tmp_path: Path) -> None:
    configuration = shipped()
    parts = page_parts(configuration, TOKEN, time.monotonic)
    with test_server.opened(test_server.create()) as database:
        assert one_cycle(database, flow_scenario(), seed=SEED, profile="flow")[0].outcome == "done"
        with serving(database, tmp_path, configuration, parts=parts) as site, client_of(site, BROWSER) as browser:
            assert browser.post("/login", data={"token": TOKEN}).status_code == 303
            page = browser.get(f"/tasks/{TASK + 1}").text
            document = browser.get(f"/tasks/{TASK + 1}", headers={"Accept": "application/json"}).text
    assert "27 jobs of this one have no place yet" in page and "left over: the limits leave jobs" in page
    assert "flow:ALPHA" not in page
    assert '"together"' in document and '"dearer_hs06h"' in document
