"""A page that is open all night: a thousand refreshes do not enlarge the server."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import httpx
import pytest

REFRESHES, WARM = 1000, 150
MOST_GROWN_BYTES = 24 * 1024**2


def resident_bytes() -> int:
    """Resident memory of this process, which runs the server."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.soak
def test_a_thousand_refreshes_leak_no_memory(stranger: httpx.Client) -> None:
    for _ in range(WARM):
        assert stranger.get("/").status_code == 200
    before = resident_bytes()
    for _ in range(REFRESHES):
        assert stranger.get("/").status_code == 200
    assert resident_bytes() - before < MOST_GROWN_BYTES
