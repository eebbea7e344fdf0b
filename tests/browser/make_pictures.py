"""The pictures of the README, made from the live demonstration: ``make screenshots``."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import httpx
from PIL import Image

from tests.browser.chromium import PATIENCE_MS, chromium

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "images"
PICTURES = {
    "page-overview": ("/", 1440, 1180),
    "page-task": ("/tasks/43000069", 1280, 760),
    "page-queues": ("/queues", 1280, 900),
    "page-map": ("/map", 1440, 1080),
}
COLOURS = 256
CYCLES = 3
"""Cycles of the job brokerage that are waited for, so that the pictures show a grid at work."""
WITHIN_S, LOOK_EVERY_S = 300.0, 2.0


def main() -> int:
    """Make them all; 1 when the demonstration did not come to work in time."""
    return on_the_demonstration(_take)


def on_the_demonstration(take: Callable[[str, Path], None]) -> int:
    """Do something with the address of a live demonstration and its token; 1 when it did not come to work in time."""
    with tempfile.TemporaryDirectory(prefix="gridbroker-pictures-") as home, tempfile.TemporaryFile("w+") as said:
        Path(home).chmod(0o755)
        demo = subprocess.Popen(
            [sys.executable, "-m", "broker.cli.entry", "demo", "--web", "--port", "0"],
            env={**os.environ, "BROKER_HOME": home},
            stdout=subprocess.DEVNULL,
            stderr=said,
            cwd=ROOT,
        )
        try:
            found = _address(said, demo)
            if found is None:
                said.seek(0)
                print(said.read()[-2000:], file=sys.stderr)
                return 1
            take(*found)
        finally:
            demo.send_signal(signal.SIGINT)
            demo.wait(60)
    return 0


def _address(said: IO[str], demo: subprocess.Popen[bytes]) -> tuple[str, Path] | None:
    """The address that the demonstration prints and its file with the token, once some cycles have been."""
    ends = time.monotonic() + WITHIN_S
    while time.monotonic() < ends and demo.poll() is None:
        said.seek(0)
        found = re.search(r"API: (\S+)/api/v1 \(token in (\S+)\)", said.read())
        if found is not None:
            answer = httpx.get(f"{found[1]}/api/v1/agents", timeout=60)
            agents = {one["agent"]: one["cycles_24h"] for one in answer.json()["agents"]}
            if agents.get("production_job", 0) > CYCLES:
                return found[1], Path(found[2])
        with contextlib.suppress(subprocess.TimeoutExpired):
            demo.wait(LOOK_EVERY_S)
    return None


def _take(address: str, token_file: Path) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        context = browser.new_context(base_url=address, color_scheme="light")
        page = logged_in(context, token_file)
        for name, (address, width, height) in PICTURES.items():
            page.set_viewport_size({"width": width, "height": height})
            page.goto(address)
            file = FOLDER / f"{name}.png"
            page.screenshot(path=file)
            Image.open(file).convert("RGB").quantize(COLOURS).save(file, optimize=True)
            print(file)


def logged_in(context: Any, token_file: Path) -> Any:
    """A page of somebody who has logged in with the token of the demonstration."""
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto("/login")
    page.get_by_label("token").fill(token_file.read_text(encoding="ascii").strip())
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/")
    return page


if __name__ == "__main__":
    sys.exit(main())
