"""The list of queues on a grid of many: page by page, and each page small."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest

from broker.grid.pages import queues
from broker.grid.pages.queues import MOST_CODES, QUEUES_OF_A_PAGE, heat_map
from broker.service.answers.overview import QueueRejections, RejectionMap

QUEUES = [f"SITE-{number:03d}_MCORE" for number in range(200)]
CODES = tuple(f"reason_code_{number:02d}" for number in range(40))


def test_a_heat_map_of_a_page_stays_small() -> None:
    found = RejectionMap(
        now=datetime(2026, 8, 1, tzinfo=UTC),
        codes=CODES,
        queues=tuple(
            QueueRejections(queue=name, chosen=1, rejected={code: 3 for at, code in enumerate(CODES) if at % 2})
            for name in QUEUES
        ),
    )
    drawn = heat_map(found, set(QUEUES[:QUEUES_OF_A_PAGE]))
    assert drawn.count("<rect") == QUEUES_OF_A_PAGE * MOST_CODES / 2 and len(drawn) < 100_000
    assert QUEUES[0] in drawn and QUEUES[QUEUES_OF_A_PAGE] not in drawn


def test_the_pages_of_the_list_follow_one_another_and_json_is_whole(
    stranger: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "QUEUES_OF_A_PAGE", 2)
    told = [one["queue"] for one in stranger.get("/api/v1/queues").json()["queues"]]
    seen, address = [], "/queues?idle=false"
    for _ in range(3):
        page = stranger.get(address).text
        seen += [name for name in told if f'<th scope="row"><a href="/queues/{name}">' in page]
        address = "/queues" + page.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert seen == told and address == "/queues" and "Queues before these" in page
    whole = stranger.get("/queues?first=3", headers={"Accept": "application/json"}).json()
    assert [one["queue"] for one in whole["queues"]["queues"]] == told
