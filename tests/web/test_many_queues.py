"""The list of queues on a large grid: page by page, each page small."""

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
    rejections = RejectionMap(
        now=datetime(2026, 8, 1, tzinfo=UTC),
        codes=CODES,
        queues=tuple(
            QueueRejections(queue=name, chosen=1, rejected={code: 3 for at, code in enumerate(CODES) if at % 2})
            for name in QUEUES
        ),
    )
    picture = heat_map(rejections, set(QUEUES[:QUEUES_OF_A_PAGE]))
    assert picture.count("<rect") == QUEUES_OF_A_PAGE * MOST_CODES / 2 and len(picture) < 100_000
    assert QUEUES[0] in picture and QUEUES[QUEUES_OF_A_PAGE] not in picture


def test_the_list_is_paged_and_its_json_is_complete(stranger: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "QUEUES_OF_A_PAGE", 2)
    names = [queue["queue"] for queue in stranger.get("/api/v1/queues").json()["queues"]]
    listed, address = [], "/queues?idle=false"
    for _ in range(3):
        page = stranger.get(address).text
        listed += [name for name in names if f'<th scope="row"><a href="/queues/{name}">' in page]
        address = "/queues" + page.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert listed == names and address == "/queues" and "Queues before these" in page
    whole = stranger.get("/queues?first=3", headers={"Accept": "application/json"}).json()
    assert [queue["queue"] for queue in whole["queues"]["queues"]] == names
