"""Plots and pictures over time: data, frames, the curve of a sweep, before and after, and the map."""

from __future__ import annotations

import json
import re
import threading
import time
from datetime import UTC, datetime

import httpx
import pytest
import sqlalchemy as sa

from broker.access.names import HIDDEN
from broker.grid.answers.queue_jobs import JobsThen, QueueJobs, jobs_by_queue
from broker.grid.pages.grid_map import Flow, Site, grid_map
from broker.service.pages.plots import job_columns
from broker.snapshot.raw import RawSource, Rows
from broker.store.connection.database import Database
from broker.web.frames import frame
from broker.whatif.pages.run_pictures import before_and_after, curves, points_of
from tests.web.test_sessions import HOSTILE, csrf_of

KEY = "BASE_QUEUE_LENGTH_PER_PQ"
DEADLINE_S = 120
_A_PIN = sa.text("""
    INSERT INTO broker.queue_pins (queue, field, value, editor, reason, set_at, until)
    VALUES ('BETA', 'status', '"online"', 'smith', :reason, :at, CAST(:at AS timestamptz) + interval '1 hour')""")
NOW = datetime(2026, 8, 1, tzinfo=UTC)


@pytest.mark.slow
@pytest.mark.parametrize("address", ["/plots/outcomes", "/plots/queues/ALPHA_MCORE", "/plots/queues/ALPHA_MCORE/MCORE"])
def test_the_data_of_a_plot_fits_its_frame(stranger: httpx.Client, address: str) -> None:
    answer = stranger.get(address)
    assert answer.status_code == 200 and len(answer.content) < 40_000
    plot = answer.json()
    text = json.dumps(plot["frame"])
    names = set(re.findall(r'"name": "(\w+)"', text))
    assert names >= {"time", *plot["sources"]}
    for columns in plot["sources"].values():
        assert len({len(column) for column in columns.values()}) == 1
        assert all(f'["{name}", []]' in text or f'["{name}", {{' in text for name in columns)
    assert plot["span"][1] - plot["span"][0] == 24 * 3600 * 1000
    assert "CustomJS" not in text and "var(--run-fill)" in text and "#0101" not in text
    headers = {"If-None-Match": answer.headers["etag"]}
    statuses = [stranger.get(address, params={"hours": hours}, headers=headers).status_code for hours in (24, 1)]
    assert statuses == [304, 200]


def test_a_plot_of_an_unknown_queue_is_refused(stranger: httpx.Client) -> None:
    assert stranger.get("/plots/queues/NOWHERE").status_code == 404


def test_a_plot_has_a_picture_for_browsers_without_scripts(stranger: httpx.Client) -> None:
    for address, plot in (("/", "outcomes"), ("/queues/ALPHA_MCORE", "queues/ALPHA_MCORE")):
        page = stranger.get(address).text
        assert re.search(rf'<div class="plot" data-plot="/plots/{plot}\?hours=1"><div class="picture chart">', page)
        assert re.search(r'<meta name="bokeh" content="/static/[0-9a-f]+/bokeh.min.js">', page)
    script = stranger.get(re.search(r"/static/[0-9a-f]+/bokeh.min.js", page)[0])  # type: ignore[index]
    assert len(script.content) > 500_000 and script.headers["cache-control"].endswith("immutable")


def test_marks_hide_names_from_strangers(
    logged_in_client: httpx.Client, stranger: httpx.Client, decided: Database
) -> None:
    at = datetime.fromisoformat(stranger.get("/api/v1/queues").json()["now"])
    pin = {"reason": f"smith wants it {HOSTILE}", "at": at}
    with decided.begin() as connection:
        connection.execute(_A_PIN, pin)
    try:
        marks = {
            browser: browser.get("/plots/outcomes").json()["sources"]["marks"]["text"]
            for browser in (logged_in_client, stranger)
        }
        assert any(
            "smith wants it" in text and "\\x1b" in text and "\x1b" not in text for text in marks[logged_in_client]
        )
        assert any(f"{HIDDEN} wants it" in text for text in marks[stranger]) and "smith" not in str(marks[stranger])
        assert "smith" not in stranger.get("/").text and "smith" in logged_in_client.get("/").text
    finally:
        with decided.begin() as connection:
            connection.execute(sa.text("DELETE FROM broker.queue_pins"))


def test_jobs_of_a_queue_agree_with_the_api_and_its_page(stranger: httpx.Client) -> None:
    history = stranger.get("/api/v1/queues/ALPHA_MCORE/jobs").json()
    assert history["queue"] == "ALPHA_MCORE" and len(history["steps"]) == 1 and history["lost"] == 0
    now = stranger.get("/api/v1/queues/ALPHA_MCORE").json()["jobs"]
    queued = sum(now[name] for name in ("defined", "assigned", "activated", "starting"))
    assert history["steps"][0]["running"] == now["running"] and history["steps"][0]["queued"] == queued
    data = stranger.get("/plots/queues/ALPHA_MCORE").json()["sources"]["steps"]
    assert data["running"] == [now["running"]] * 2 and data["queued"] == [queued] * 2


def test_rows_are_added_up_by_queue() -> None:
    columns = ("computingsite", "jobstatus", "njobs")
    rows = (("A", "running", 3), ("A", "running", 4), ("A", "activated", 5), ("B", "starting", 1), ("B", "holding", 9))
    invalid = ((None, "running", 1), ("A", "running", None), ("A", "running", -2))
    source = RawSource("jobs", {"job_counts": Rows(columns, (*rows, *invalid))})
    assert jobs_by_queue(source) == {"A": (7, 5), "B": (0, 1)}
    queue_jobs = QueueJobs(
        now=NOW, since=NOW, step_s=1.0, queue="A", lost=0, steps=(JobsThen(at=NOW, running=7, queued=5),)
    )
    assert job_columns(queue_jobs)["running"] == [7, 7]


@pytest.mark.slow
def test_a_range_is_tried_and_drawn(logged_in_client: httpx.Client) -> None:
    fields = {"csrf": csrf_of(logged_in_client.get(f"/tuning/{KEY}").text), "from": "50", "to": "150", "step": "50"}
    assert logged_in_client.post(f"/tuning/{KEY}/sweep", data={**fields, "hours": "0"}).status_code == 422
    assert logged_in_client.post(f"/tuning/{KEY}/sweep", data={**fields, "from": "x", "hours": "1"}).status_code >= 400
    assert logged_in_client.post(f"/tuning/{KEY}/sweep", data={**fields, "step": "0", "hours": "1"}).status_code >= 400
    for answer in (
        logged_in_client.post(f"/tuning/{KEY}/sweep", data={**fields, "hours": "24"}),
        logged_in_client.post(f"/tuning/{KEY}/try", data={**fields, "value": "1"}),
    ):
        assert answer.status_code == 303, answer.text
        page = page_of_ended_run(logged_in_client, answer.headers["location"])
        assert '<p class="verdict">done' in page, page
        assert f'href="/tuning/{KEY}"' in page
    page = logged_in_client.get(f"/tuning/{KEY}").text
    assert "What each value does" in page and page.count("<polyline") == 3 and "Before and after" in page
    trials = logged_in_client.get(f"/tuning/{KEY}", headers={"Accept": "application/json"}).json()["tried"]
    assert trials["swept"]["asked"]["ranges"] == [f"{KEY}=50:150:50"] and trials["compared"]["asked"]["set"] == {KEY: 1}


def page_of_ended_run(client: httpx.Client, address: str) -> str:
    """The page of a run that has ended."""
    deadline_s, pause = time.monotonic() + DEADLINE_S, threading.Event()
    while time.monotonic() < deadline_s:
        page = client.get(address).text
        if 'http-equiv="refresh"' not in page:
            break
        pause.wait(0.1)
    return page


TOTAL = {
    "decisions": 4,
    "changed": 1,
    "tasks_losing_last_queue": 2,
    "candidates": {"before": {"mean": 3.0}, "after": {"mean": 1.5}},
    "jobs": {"before": 10, "after": 10, "moved": 6},
    "queues": {HOSTILE: {"jobs_before": 8, "jobs_after": 2}, "B": {"jobs_before": 2, "jobs_after": 8}},
}


def test_a_sweep_is_drawn_by_value_and_a_comparison_by_queue() -> None:
    points = points_of(
        {"points": [{"set": {KEY: 20}, "totals": [TOTAL, TOTAL]}, {"set": {KEY: 10}, "totals": [TOTAL]}]}
    )
    assert [(point.value, point.moved, point.candidates, point.losing) for point in points] == [
        (10, 6, 1.5, 2),
        (20, 12, 1.5, 4),
    ]
    pictures = dict(curves(KEY, "jobs", points, 15.0))
    assert "in force: 15 jobs" in next(iter(pictures.values())) and len(pictures) == 3
    assert points_of(None) == [] and points_of({"points": [{"set": {KEY: "a"}, "totals": []}]}) == []
    slopes = str(before_and_after({"totals": [TOTAL]}))
    assert "<script>" not in slopes and "B 2 to 8 jobs" in slopes and slopes.count("<line") == 2
    assert before_and_after({"points": []}) is None and before_and_after(None) is None


def test_a_map_of_200_sites_is_readable_and_small() -> None:
    sites = [
        Site(f"SITE-{at:03d}", f"T{1 + at % 2}", f"C{at % 10}", at, 2 * at, at % 7, at % 9 > 0, at % 20 == 0)
        for at in range(200)
    ]
    flows = [Flow(f"SITE-{at:03d}", f"SITE-{20 * (at % 10):03d}", 10.0 * at, 100.0) for at in range(41)]
    picture = str(grid_map(sites, [*flows, Flow("SITE-001", "NOWHERE", 1.0, None)]))
    assert len(picture) < 120_000 and all(f">{site.name}<" in picture or f"◆ {site.name}" in picture for site in sites)
    tiles = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="14"', picture)
    assert len(set(tiles)) == 200
    assert 35 < picture.count('class="band') <= 41 and 'class="band full-band"' in picture
    assert "SITE-020: 20 run, 40 wait, 6 placed in the last hour" in picture


def test_every_frame_is_built_once() -> None:
    assert frame("jobs") is frame("jobs") and frame("jobs") != frame("outcomes")
