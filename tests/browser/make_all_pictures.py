"""Pictures of all pages at a desk and on a phone, light and dark, from the live demonstration: ``make pictures``.

Each page is one file with its four looks side by side for comparison.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any

import httpx
from PIL import Image

from broker.api.presenting import to_path
from tests.browser.chromium import chromium
from tests.browser.make_pictures import ROOT, logged_in, on_the_demonstration
from tests.browser.pages import KEY, MENU

FOLDER = ROOT / "build" / "pictures"
SCREENS = {"desk": (1440, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
TALLEST = 1800
"""Height of a picture in pixels; the rest of the page is cut off."""


def main() -> int:
    """Make all pictures; returns 1 when the demonstration did not start in time."""
    if len(sys.argv) > 2:
        take(sys.argv[1], Path(sys.argv[2]))
        return 0
    return on_the_demonstration(take)


def take(address: str, token_file: Path) -> None:
    """Take pictures of all pages of a running service."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        looks = [_look(browser, address, token_file, size) for size in SCREENS.values()]
        for place in (*MENU, *_things(address)):
            name = re.sub(r"[^a-zA-Z0-9]+", "-", place).strip("-") or "front"
            shots = [_shot(page, place, scheme) for page in looks for scheme in SCHEMES]
            _beside(shots).save(FOLDER / f"{name}.png", optimize=True)
            print(FOLDER / f"{name}.png")


def _look(browser: Any, address: str, token_file: Path, size: tuple[int, int]) -> Any:
    viewport = {"width": size[0], "height": size[1]}
    return logged_in(browser.new_context(base_url=address, viewport=viewport), token_file)


def _shot(page: Any, place: str, scheme: str) -> Image.Image:
    page.emulate_media(color_scheme=scheme)
    page.goto(place)
    if page.locator("[data-plot]").count():
        page.locator(".plot.drawn canvas").first.wait_for()
    height = min(TALLEST, page.evaluate("document.documentElement.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": page.viewport_size["width"], "height": height}
    return Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip))).convert("RGB")


def _beside(shots: list[Image.Image]) -> Image.Image:
    sheet = Image.new("RGB", (sum(shot.width for shot in shots), max(shot.height for shot in shots)), "grey")
    left = 0
    for shot in shots:
        sheet.paste(shot, (left, 0))
        left += shot.width
    return sheet.quantize(256)


def _things(address: str) -> list[str]:
    """Detail pages: a waiting task, a brokered task, a queue, a job and so on."""
    with httpx.Client(base_url=f"{address}/api/v1", timeout=60) as client:
        tasks = client.get("tasks", params={"limit": 200}).json()["tasks"]
        by_outcome = {line["outcome"]: line["task"]["jeditaskid"] for line in tasks}
        job = client.get("jobs", params={"limit": 1}).json()["jobs"][0]["pandaid"]
        simulations = client.get("simulations").json()["items"]
    task_ids = [by_outcome[name] for name in ("pending", "throttled", "brokered") if name in by_outcome]
    return [
        *(f"/tasks/{task}" for task in task_ids),
        f"/tasks/{task_ids[0]}/why-not/BNL",
        "/queues/BNL",
        "/nuclei/BNL-ATLAS",
        f"/tuning/{KEY}",
        "/rules/memory_max",
        "/reasons/lowmemory",
        f"/jobs/{job}",
        "/users",
        *(f"/users/{to_path(line['task']['username'])}" for line in tasks[:1]),
        "/mine",
        "/match",
        "/shadow",
        "/tasks/1",
        *(f"/simulations/{simulation['id']}" for simulation in simulations[:1]),
    ]


if __name__ == "__main__":
    sys.exit(main())
