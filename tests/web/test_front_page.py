"""The front page: the flow of work, why work waits, what is wrong; and the list of jobs."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import sqlalchemy as sa
from markupsafe import Markup

from broker.access.names import hidden
from broker.grid.pages.grid_map import Site
from broker.service.answers.flow import Flow, WorkFlow, last_60_minutes, shown_steps
from broker.service.pages.front import change, figures, tiles
from broker.store.connection.database import Database
from broker.web.mounting import page_parts
from broker.web.pictures.bars import element, titled_box
from tests.api.serving import TOKEN, client_of, serving, shipped
from tests.web.conftest import BROWSER
from tests.web.test_other_pages import figures as words_of

HOUR = timedelta(hours=1)
NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
_RECORD = sa.text("""
    INSERT INTO broker.queue_record VALUES (:hour, 'ALPHA_MCORE', 'production', 'evgen', 'SCORE', :finished, :failed,
        0, 0, 0, 0, 0, 0, 0, array_fill(0::bigint, ARRAY[16]))""")

_STARTS = sa.text("INSERT INTO broker.job_starts VALUES (:hour, :started)")


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [(0, 60.0), (15, 30 + 45.0), (59, 30 + 1.0)],
    ids=["the hour before", "parts of both", "this hour"],
)
def test_the_last_60_minutes_combine_this_hour_and_part_of_the_previous_one(minutes: int, expected: float) -> None:
    hours = {NOON: 30.0 if minutes else 0.0, NOON - HOUR: 60.0}
    assert last_60_minutes(hours, NOON + timedelta(minutes=minutes)) == pytest.approx(expected)
    assert last_60_minutes({NOON - 2 * HOUR: 9.0}, NOON) is None


@pytest.mark.parametrize(
    ("counted_steps", "expected"),
    [([], []), ([3], [3]), ([1, 2], [1, 2]), ([1, 3], [1]), ([0, 2, 3], [0, 2])],
    ids=["nothing", "it goes on, but is the only one", "all are over", "one goes on", "one is missing"],
)
def test_an_unfinished_step_is_not_shown_as_a_drop(counted_steps: list[int], expected: list[int]) -> None:
    starts = [NOON + at * HOUR for at in range(4)]
    inside = [starts[at] + timedelta(minutes=59) for at in counted_steps]
    assert shown_steps(starts, inside, 3600) == [starts[at] for at in expected]


@pytest.mark.parametrize(
    ("now", "before", "text"),
    [
        (None, 5.0, "nothing was counted yet"),
        (5.0, None, "yesterday not known"),
        (5.0, 5.0, "as yesterday"),
        (1200.0, 1000.0, "▲ 200 (20%) to yesterday"),
        (0.0, 1000.0, "▼ 1,000 (100%) to yesterday"),
        (7.0, 0.0, "▲ 7 to yesterday"),
    ],
)
def test_change_of_a_flow_since_yesterday(now: float | None, before: float | None, text: str) -> None:
    assert change(Flow(last_hour=now, day_before=before, steps=())) == text


def flow(finished: float | None, failed: float | None) -> WorkFlow:
    empty = Flow(last_hour=None, day_before=None, steps=())
    flows = [Flow(last_hour=value, day_before=None, steps=()) for value in (finished, failed)]
    return WorkFlow(
        now=NOON,
        step_s=300,
        waiting=empty,
        placed=empty,
        started=empty,
        finished=flows[0],
        failed=flows[1],
        by_reason={},
    )


@pytest.mark.parametrize(
    ("finished", "failed", "number"),
    [(75.0, 25.0, "25.0 %"), (None, 3.0, "100.0 %"), (0.0, 0.0, "–"), (None, None, "–")],  # noqa: RUF001
)
def test_failure_rate_of_jobs(finished: float | None, failed: float | None, number: str) -> None:
    assert figures(flow(finished, failed))[3].number == number


def test_a_failing_site_is_the_first_tile_and_an_offline_one_is_grey() -> None:
    from broker.grid.answers.models import JobNumbers, QueueLine, Queues

    no_jobs = JobNumbers(**dict.fromkeys(JobNumbers.model_fields, 0))
    line = QueueLine.model_construct(queue="B_Q", site="B", status="online", jobs=no_jobs)
    sites = [
        Site(name, "T1", "US", running, 1, 0, name != "C", False) for name, running in (("A", 9), ("B", 1), ("C", 0))
    ]
    site_tiles = tiles(sites, {"B_Q"}, Queues.model_construct(now=NOON, queues=(line,)))
    assert [(tile.name, tile.class_) for tile in site_tiles] == [("B", "fail"), ("A", "run"), ("C", "idle")]


@pytest.mark.slow
def test_the_page_shows_how_jobs_ended(logged_in_client: httpx.Client, decided: Database) -> None:
    now = datetime.fromisoformat(logged_in_client.get("/api/v1/queues").json()["now"])
    hour = now.replace(minute=0, second=0, microsecond=0)
    with decided.begin() as connection:
        for at, finished, failed in ((hour, 300, 100), (hour - 24 * HOUR, 100, 100)):
            connection.execute(_RECORD, {"hour": at, "finished": finished, "failed": failed})
            connection.execute(_STARTS, {"hour": at, "started": 2 * finished})
    try:
        page = words_of(logged_in_client.get("/").text)
        document_flow = logged_in_client.get("/", headers={"Accept": "application/json"}).json()["flow"]
    finally:
        with decided.begin() as connection:
            connection.execute(sa.text("DELETE FROM broker.queue_record"))
            connection.execute(sa.text("DELETE FROM broker.job_starts"))
    assert "Jobs that fail 25.0 % ▼ 25.0 points to yesterday" in page and "Jobs finished an hour 300" in page
    assert "Jobs started an hour 600 \u25b2 400 (200%) to yesterday" in page
    assert document_flow["finished"]["last_hour"] == 300 and document_flow["failed"]["day_before"] == 100
    assert "Why work waits" in page and "What is wrong now" in page and "Where work runs" in page


def test_the_list_of_jobs_keeps_its_filters(logged_in_client: httpx.Client, stranger: httpx.Client) -> None:
    jobs = stranger.get("/api/v1/jobs?limit=3").json()["jobs"]
    page = stranger.get("/jobs?limit=3").text
    assert jobs and all(f'href="/jobs/{line["pandaid"]}"' in page for line in jobs)
    job = jobs[0]
    filtered = stranger.get(f"/jobs?task={job['jeditaskid']}&state={job['jobstatus']}").text
    assert (
        f'href="/jobs/{job["pandaid"]}"' in filtered and f"/jobs?task={job['jeditaskid']}&amp;state=failed" in filtered
    )
    assert "No job matches." in stranger.get("/jobs?queue=NOWHERE").text
    assert stranger.get("/jobs?bogus=1").status_code == 422
    assert f"Job {job['pandaid']}" in logged_in_client.get(f"/jobs/{job['pandaid']}").text


def test_hiding_names_keeps_markup_as_markup() -> None:
    masked = hidden({"editor": "smith", "drawn": Markup("<b>{}</b>").format("of smith"), "said": "smith <b>"})
    assert isinstance(masked["drawn"], Markup) and masked["drawn"] == "<b>of ***</b>"
    assert not isinstance(masked["said"], Markup) and masked["said"] == "*** <b>"
    unchanged = hidden({"editor": "smith", "drawn": Markup("<b>nobody</b>")})
    assert isinstance(unchanged["drawn"], Markup)


def test_the_page_runs_each_query_once(decided: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = shipped()
    queries: Counter[tuple[str, str]] = Counter()
    with serving(decided, tmp_path, configuration, parts=page_parts(configuration, TOKEN, time.monotonic)) as site:
        execute = psycopg.Cursor.execute

        def count(self: Any, query: Any, params: Any = None, **keywords: Any) -> Any:
            queries[" ".join(str(query).split()), str(params)] += 1
            return execute(self, query, params, **keywords)

        with client_of(site, BROWSER) as browser:
            browser.get("/")
            monkeypatch.setattr(psycopg.Cursor, "execute", count)
            assert browser.get("/").status_code == 200
            monkeypatch.undo()
    repeated = [query for (query, _), times in queries.items() if times > 1]
    assert len(queries) > 20 and repeated == []
    assert not any("EXISTS (SELECT FROM broker.chunk_states" in query for query, _ in queries)


@pytest.mark.parametrize("text", ["12:00 UTC brokered: 1,234", 'a <b> & "c" of \x07'])
@pytest.mark.parametrize("height", [0.0, 3.25, 1e-9, 199.96])
def test_a_box_of_a_chart_equals_the_general_element(text: str, height: float) -> None:
    place = {"x": 12.34, "y": 0.05, "width": 5.0, "height": height}
    title = [element("title", text)]
    expected = element("rect", title, class_="outcome-<x>", data_at=NOON.isoformat(), **place)
    assert titled_box((12.34, 0.05, 5.0, height), text, "outcome-<x>", NOON.isoformat()) == expected
