"""The quality of decisions on the page, in the API and as metrics, with and without measurements."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from broker.flow.statements import quality_rows
from broker.flow.statements.quality_rows import QualityRow
from broker.store.connection.database import Database
from broker.web.mounting import page_parts
from tests.api.serving import TOKEN, client_of, serving, shipped
from tests.web.conftest import BROWSER

DETAILS = {
    "chunks": 3, "placed": 90.0, "even_hs06h": 900.0, "solver": "HiGHS",
    "causes": {"time": [500.0, 400.0], "bytes": [200.0, 50.0]},
    "shares": [["<b>MC</b>", 90, 200.0], ["Data", 10, 50.0]],
    "queues": [["ALPHA_MCORE", 80.0, 8.0]],
    "rules": [["lowmemory", 2, 30.0, False], ["status", 1, 500.0, True]],
}  # fmt: skip


@pytest.fixture
def browser(database: Database, tmp_path: Path) -> Iterator[httpx.Client]:
    """A logged-in browser on an empty installation."""
    with (
        serving(database, tmp_path, parts=page_parts(shipped(), TOKEN, time.monotonic)) as server,
        client_of(server, BROWSER) as client,
    ):
        assert client.post("/login", data={"token": TOKEN}).status_code == 303
        yield client


def store_measurements(database: Database) -> None:
    """Store a cycle of a minute ago, and an unreadable one."""
    with database.begin() as connection:
        now = connection.execute(sa.text("SELECT clock_timestamp()")).scalar_one() - timedelta(minutes=1)
        row = QualityRow(
            "production_job", now, 1, "atlas", "ours", "s", now, 0.2, "measured", jobs=100, cost_hs06h=750.0,
            best_hs06h=600.0, left_hs06h=100.0, gb=40.0, best_gb=10.0, input_gb=60.0, details=DETAILS,
        )  # fmt: skip
        lost = QualityRow("analysis_job", now, 1, "", "ours", "s", now, 0.0, "unreadable", details={"error": "damaged"})
        quality_rows.write(connection, [row, lost, row])


def test_without_measurements_the_page_names_the_measuring_agent(browser: httpx.Client) -> None:
    text = browser.get("/quality").text
    assert "No cycle was measured yet" in text and "decision_quality" in text


def test_page_api_and_metrics_agree(database: Database, browser: httpx.Client) -> None:
    store_measurements(database)
    page = browser.get("/quality")
    assert page.status_code == 200 and len(page.content) < 150_000
    assert "production_job: 30 % dearer than the best placement" in page.text
    assert "&lt;b&gt;MC" in page.text and "<b>MC" not in page.text
    assert "at most" in page.text and "unreadable" in page.text
    answer = browser.get("/api/v1/quality", headers={"Accept": "application/json"}).json()
    measured_cycle, unreadable_cycle = answer["cycles"]
    assert (unreadable_cycle["state"], unreadable_cycle["regret_percent"], unreadable_cycle["bytes_percent"]) == (
        "unreadable",
        None,
        None,
    )
    assert (measured_cycle["regret_hs06h"], measured_cycle["regret_percent"], measured_cycle["bytes_percent"]) == (
        150.0,
        30.0,
        50.0,
    )
    assert [line["share"] for line in measured_cycle["shares"]] == ["<b>MC</b>", "Data"]
    assert [(line["code"], line["at_most"]) for line in measured_cycle["rules"]] == [
        ("lowmemory", False),
        ("status", True),
    ]
    metrics = browser.get("/metrics").text
    labels = 'brokerage="production_job",placer="ours"'
    assert f'broker_decision_regret_ratio{{{labels},vo="atlas"}} 0.3' in metrics
    assert f'broker_decision_regret_bytes_ratio{{{labels},vo="atlas"}} 0.5' in metrics
    assert f'broker_decision_regret_share_hs06_hours{{{labels},share="Data",vo="atlas"}} 50.0' in metrics
    assert "analysis_job" not in "".join(line for line in metrics.splitlines() if "decision_regret" in line)
