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
"""Cycles of the job brokerage to wait for, so that the pictures show a busy grid."""
WITHIN_S, LOOK_EVERY_S = 300.0, 2.0


def main() -> int:
    """Make all pictures; returns 1 when the demonstration did not start in time."""
    return on_the_demonstration(_take)


def on_the_demonstration(take: Callable[[str, Path], None]) -> int:
    """Call ``take`` with the address of a live demonstration and its token file; returns 1 when it did not start."""
    with tempfile.TemporaryDirectory(prefix="gridbroker-pictures-") as home, tempfile.TemporaryFile("w+") as messages:
        Path(home).chmod(0o755)
        demo = subprocess.Popen(
            [sys.executable, "-m", "broker.cli.entry", "demo", "--web", "--port", "0"],
            env={**os.environ, "BROKER_HOME": home},
            stdout=subprocess.DEVNULL,
            stderr=messages,
            cwd=ROOT,
        )
        try:
            address_and_token_file = _address(messages, demo)
            if address_and_token_file is None:
                messages.seek(0)
                print(messages.read()[-2000:], file=sys.stderr)
                return 1
            take(*address_and_token_file)
        finally:
            demo.send_signal(signal.SIGINT)
            demo.wait(60)
    return 0


def _address(messages: IO[str], demo: subprocess.Popen[bytes]) -> tuple[str, Path] | None:
    """The printed address of the demonstration and its token file, after some cycles."""
    deadline_s = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline_s and demo.poll() is None:
        messages.seek(0)
        match = re.search(r"API: (\S+)/api/v1 \(token in (\S+)\)", messages.read())
        if match is not None:
            answer = httpx.get(f"{match[1]}/api/v1/agents", timeout=60)
            agents = {agent["agent"]: agent["cycles_24h"] for agent in answer.json()["agents"]}
            if agents.get("production_job", 0) > CYCLES:
                return match[1], Path(match[2])
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
    """A page that is logged in with the token of the demonstration."""
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto("/login")
    page.get_by_label("token").fill(token_file.read_text(encoding="ascii").strip())
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/")
    return page


if __name__ == "__main__":
    sys.exit(main())
