"""The map by latitude and longitude: parts of the world, names without overlaps, failures; and how to choose it."""

from __future__ import annotations

import re

import httpx
import pytest

from broker.grid.answers.queues import _degrees
from broker.grid.pages.grid_map import Flow, Site, grid_map
from broker.grid.pages.place_map import DESK, LETTER, LINE, PHONE, Frame, place_map

EUROPE = [
    Site(f"EU-{at:02d}", "T2", "DE", 10 * at, at, 0, at != 3, at == 1, place=(45.0 + at % 6, 2.0 + at % 9))
    for at in range(36)
]
OTHERS = [
    Site(
        "BNL", "T1", "US", 900, 5, 7, online=True, nucleus=True, failed=40, ended=50, failing=True, place=(40.9, -72.9)
    ),
    Site("NERSC", "T2", "US", 9, 0, 0, online=True, nucleus=False, place=(37.9, -122.3)),
    Site("NOWHERE", "T2", "US", 9, 0, 0, online=True, nucleus=False),
]
FLOWS = [Flow("BNL", "EU-01", 90.0, 50.0), Flow("NOWHERE", "EU-01", 90.0, 50.0)]
TEXT = re.compile(r'<text x="([-\d.]+)" y="([-\d.]+)" class="(?:label|heading)" text-anchor="(\w+)">([^<]+)</text>')


@pytest.mark.parametrize("frame", [DESK, PHONE])
def test_names_cover_neither_each_other_nor_a_site(frame: Frame) -> None:
    picture = str(place_map([*EUROPE, *OTHERS], FLOWS, frame))
    boxes = []
    for x, y, anchor, name in TEXT.findall(picture):
        wide = LETTER * len(name)
        left = float(x) - (wide if anchor == "end" else 0)
        assert left > -1 and left + wide < frame.width + 1 and float(y) <= frame.height
        boxes.append((left, float(y) - 4 - LINE / 2, left + wide, float(y) - 4 + LINE / 2))
    for at, box in enumerate(boxes):
        for later in boxes[at + 1 :]:
            is_apart = (
                box[2] <= later[0] + 1 or later[2] <= box[0] + 1 or box[3] <= later[1] + 1 or later[3] <= box[1] + 1
            )
            assert is_apart, (box, later)
    assert picture.count("<circle") == 38 and "NOWHERE" not in picture
    assert ">BNL</text>" in picture and picture.count('class="band') == (1 if frame.beside else 0)
    assert {"122° W", "73° W", "2° E to 10° E"} <= {name for _, _, _, name in TEXT.findall(picture)}


def test_failures_are_marked_on_both_maps() -> None:
    by_place, by_tier = str(place_map(OTHERS, (), DESK)), str(grid_map(OTHERS))
    for picture in (by_place, by_tier):
        assert (
            "BNL: 900 run, 5 wait, 7 placed in the last hour, 40 of 50 that ended recently failed, nucleus" in picture
        )
    assert by_place.count(" failing") == 1 and "✕ 40" in by_tier


@pytest.mark.parametrize(
    ("value", "limit", "degrees"),
    [(46.2, 90, 46.2), ("46.2", 90, 46.2), (-90, 90, -90.0), (90.1, 90, None), ("north", 90, None), (None, 90, None)],
)
def test_degrees_of_a_document(value: object, limit: float, degrees: float | None) -> None:
    assert _degrees(value, limit) == degrees


def test_the_page_shows_tiers_where_no_place_is_known(logged_in_client: httpx.Client) -> None:
    default_page, place_page = logged_in_client.get("/map").text, logged_in_client.get("/map?by=place").text
    assert "Clouds from top to bottom" in default_page and "Sites by latitude and longitude" not in default_page
    assert "Sites by latitude and longitude" in place_page and re.search(
        r"Of \d+ sites the place is not known", place_page
    )
    assert logged_in_client.get("/map?by=colour").status_code == 422
