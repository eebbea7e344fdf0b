"""The first page: whether work flows, why it waits, what is wrong; jobs with whose fault a failure is."""

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
    ("minutes", "about"),
    [(0, 60.0), (15, 30 + 45.0), (59, 30 + 1.0)],
    ids=["the hour before", "parts of both", "this hour"],
)
def test_the_last_60_minutes_are_this_hour_and_a_part_of_the_one_before(minutes: int, about: float) -> None:
    hours = {NOON: 30.0 if minutes else 0.0, NOON - HOUR: 60.0}
    assert last_60_minutes(hours, NOON + timedelta(minutes=minutes)) == pytest.approx(about)
    assert last_60_minutes({NOON - 2 * HOUR: 9.0}, NOON) is None


@pytest.mark.parametrize(
    ("counted", "shown"),
    [([], []), ([3], [3]), ([1, 2], [1, 2]), ([1, 3], [1]), ([0, 2, 3], [0, 2])],
    ids=["nothing", "it goes on, but is the only one", "all are over", "one goes on", "one is missing"],
)
def test_the_step_that_goes_on_is_no_fall(counted: list[int], shown: list[int]) -> None:
    starts = [NOON + at * HOUR for at in range(4)]
    inside = [starts[at] + timedelta(minutes=59) for at in counted]
    assert shown_steps(starts, inside, 3600) == [starts[at] for at in shown]


@pytest.mark.parametrize(
    ("now", "before", "said"),
    [
        (None, 5.0, "nothing was counted yet"),
        (5.0, None, "yesterday not known"),
        (5.0, 5.0, "as yesterday"),
        (1200.0, 1000.0, "▲ 200 (20%) to yesterday"),
        (0.0, 1000.0, "▼ 1,000 (100%) to yesterday"),
        (7.0, 0.0, "▲ 7 to yesterday"),
    ],
)
def test_how_a_stream_has_changed(now: float | None, before: float | None, said: str) -> None:
    assert change(Flow(last_hour=now, day_before=before, steps=())) == said


def flow(finished: float | None, failed: float | None) -> WorkFlow:
    nothing = Flow(last_hour=None, day_before=None, steps=())
    ended = [Flow(last_hour=value, day_before=None, steps=()) for value in (finished, failed)]
    return WorkFlow(
        now=NOON,
        step_s=300,
        waiting=nothing,
        placed=nothing,
        started=nothing,
        finished=ended[0],
        failed=ended[1],
        by_reason={},
    )


@pytest.mark.parametrize(
    ("finished", "failed", "number"),
    [(75.0, 25.0, "25.0 %"), (None, 3.0, "100.0 %"), (0.0, 0.0, "–"), (None, None, "–")],  # noqa: RUF001
)
def test_what_part_of_the_jobs_fails(finished: float | None, failed: float | None, number: str) -> None:
    assert figures(flow(finished, failed))[3].number == number


def test_a_failing_site_is_the_first_tile_and_one_that_is_off_is_grey() -> None:
    from broker.grid.answers.models import JobNumbers, QueueLine, Queues

    none = JobNumbers(**dict.fromkeys(JobNumbers.model_fields, 0))
    line = QueueLine.model_construct(queue="B_Q", site="B", status="online", jobs=none)
    sites = [
        Site(name, "T1", "US", running, 1, 0, name != "C", False) for name, running in (("A", 9), ("B", 1), ("C", 0))
    ]
    found = tiles(sites, {"B_Q"}, Queues.model_construct(now=NOON, queues=(line,)))
    assert [(one.name, one.class_) for one in found] == [("B", "fail"), ("A", "run"), ("C", "idle")]


@pytest.mark.slow
def test_the_page_shows_how_jobs_ended(somebody: httpx.Client, decided: Database) -> None:
    now = datetime.fromisoformat(somebody.get("/api/v1/queues").json()["now"])
    hour = now.replace(minute=0, second=0, microsecond=0)
    with decided.begin() as connection:
        for at, finished, failed in ((hour, 300, 100), (hour - 24 * HOUR, 100, 100)):
            connection.execute(_RECORD, {"hour": at, "finished": finished, "failed": failed})
            connection.execute(_STARTS, {"hour": at, "started": 2 * finished})
    try:
        page = words_of(somebody.get("/").text)
        told = somebody.get("/", headers={"Accept": "application/json"}).json()["flow"]
    finally:
        with decided.begin() as connection:
            connection.execute(sa.text("DELETE FROM broker.queue_record"))
            connection.execute(sa.text("DELETE FROM broker.job_starts"))
    assert "Jobs that fail 25.0 % ▼ 25.0 points to yesterday" in page and "Jobs finished an hour 300" in page
    assert "Jobs started an hour 600 \u25b2 400 (200%) to yesterday" in page
    assert told["finished"]["last_hour"] == 300 and told["failed"]["day_before"] == 100
    assert "Why work waits" in page and "What is wrong now" in page and "Where work runs" in page


def test_the_list_of_jobs_keeps_what_is_chosen(somebody: httpx.Client, stranger: httpx.Client) -> None:
    told = stranger.get("/api/v1/jobs?limit=3").json()["jobs"]
    page = stranger.get("/jobs?limit=3").text
    assert told and all(f'href="/jobs/{one["pandaid"]}"' in page for one in told)
    job = told[0]
    chosen = stranger.get(f"/jobs?task={job['jeditaskid']}&state={job['jobstatus']}").text
    assert f'href="/jobs/{job["pandaid"]}"' in chosen and f"/jobs?task={job['jeditaskid']}&amp;state=failed" in chosen
    assert "No job matches." in stranger.get("/jobs?queue=NOWHERE").text
    assert stranger.get("/jobs?bogus=1").status_code == 422
    assert f"Job {job['pandaid']}" in somebody.get(f"/jobs/{job['pandaid']}").text


def test_pictures_stay_pictures_where_names_are_hidden() -> None:
    kept = hidden({"editor": "smith", "drawn": Markup("<b>{}</b>").format("of smith"), "said": "smith <b>"})
    assert isinstance(kept["drawn"], Markup) and kept["drawn"] == "<b>of ***</b>"
    assert not isinstance(kept["said"], Markup) and kept["said"] == "*** <b>"
    none = hidden({"editor": "smith", "drawn": Markup("<b>nobody</b>")})
    assert isinstance(none["drawn"], Markup)


def test_the_page_asks_the_database_each_thing_once(
    decided: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = shipped()
    asked: Counter[tuple[str, str]] = Counter()
    with serving(decided, tmp_path, configuration, parts=page_parts(configuration, TOKEN, time.monotonic)) as site:
        execute = psycopg.Cursor.execute

        def note(self: Any, query: Any, params: Any = None, **others: Any) -> Any:
            asked[" ".join(str(query).split()), str(params)] += 1
            return execute(self, query, params, **others)

        with client_of(site, BROWSER) as browser:
            browser.get("/")
            monkeypatch.setattr(psycopg.Cursor, "execute", note)
            assert browser.get("/").status_code == 200
            monkeypatch.undo()
    again = [what for (what, _), times in asked.items() if times > 1]
    assert len(asked) > 20 and again == []
    assert not any("EXISTS (SELECT FROM broker.chunk_states" in what for what, _ in asked)


@pytest.mark.parametrize("said", ["12:00 UTC brokered: 1,234", 'a <b> & "c" of \x07'])
@pytest.mark.parametrize("height", [0.0, 3.25, 1e-9, 199.96])
def test_a_box_of_a_chart_is_the_element_that_it_stands_for(said: str, height: float) -> None:
    place = {"x": 12.34, "y": 0.05, "width": 5.0, "height": height}
    title = [element("title", said)]
    whole = element("rect", title, class_="outcome-<x>", data_at=NOON.isoformat(), **place)
    assert titled_box((12.34, 0.05, 5.0, height), said, "outcome-<x>", NOON.isoformat()) == whole
