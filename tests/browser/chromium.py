"""Chromium as started by ``make test-web`` and ``make screenshots``: new profile, no background requests."""

from __future__ import annotations

import os
import shutil
import site
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FOLDER = "BROKER_TEST_WEB"
PROGRAM = os.environ.get("BROKER_TEST_CHROMIUM", "chromium")
#: No sandbox, as CI runs as root.
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
PATIENCE_MS = 60_000


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser of Playwright while the block runs.

    Raises:
        RuntimeError: Chromium is missing.
    """
    if FOLDER in os.environ:
        # last on the path, so that none of our packages is replaced
        site.addsitedir(sysconfig.get_path("purelib", vars={"base": os.environ[FOLDER]}))
    from playwright.sync_api import sync_playwright

    program = shutil.which(PROGRAM)
    if program is None:
        raise RuntimeError(f"there is no {PROGRAM}; `make test-web` says how to get it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(OPTIONS), timeout=PATIENCE_MS)
        try:
            yield browser
        finally:
            browser.close()
