"""The page of forecasts: without forecasts, and the sentence about past ones."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx

from broker.forecasts.answers.check import ForecastCheck, ForecastVerdict
from broker.forecasts.answers.forecasts import ForecastLine, ForecastLines
from broker.forecasts.pages.forecasts import forecasts_sentence

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
LINE = ForecastLine(kind="task", subject="1", jeditaskid=1, p50_s=60.0, sentence="starts")
CHECK = ForecastCheck(now=NOW, since=NOW, queue=None, verdicts=())
SOME = ForecastVerdict.model_construct(name="all", resolved=1200, covered_percent=79.5, meant_percent=82.5)


def lines(*items: ForecastLine) -> ForecastLines:
    return ForecastLines(now=NOW, kind="task", lines=items)


def test_the_page_of_each_kind_works_before_the_first_forecast(stranger: httpx.Client) -> None:
    for kind in ("task_kind", "task", "queue"):
        page = stranger.get(f"/forecasts?kind={kind}")
        assert page.status_code == 200
        assert f'href="/forecasts?kind={kind}" aria-current="true"' in page.text
    assert stranger.get("/forecasts?kind=other").status_code == 422
    assert stranger.get("/forecasts", headers={"Accept": "application/json"}).json()["kind"] == "task_kind"


def test_the_sentence_counts_forecasts_and_their_quality() -> None:
    assert forecasts_sentence(lines(), CHECK).startswith("Nothing was told yet")
    unknown = LINE.model_copy(update={"unknown": "why", "p50_s": None})
    assert forecasts_sentence(lines(LINE, unknown), CHECK) == "1 of 2 starts are known. No forecast was judged yet."
    check = CHECK.model_copy(update={"verdicts": (SOME,)})
    sentence = "1 of 1 starts are known. Of 1,200 that were judged, 79.5 % lay between p10 and p90; 82.5 % are meant."
    assert forecasts_sentence(lines(LINE), check) == sentence
