"""The commits of a checkout of panda-server that touched its brokers since a release."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: Where the decisions are made, and what they are made of.
BROKERS = (
    "pandajedi/jedibrokerage",
    "pandaserver/brokerage",
    "pandaserver/taskbuffer/InputChunk.py",
    "pandaserver/taskbuffer/JediTaskSpec.py",
    "pandaserver/taskbuffer/SiteSpec.py",
    "pandaserver/taskbuffer/NucleusSpec.py",
    "pandaserver/taskbuffer/DdmSpec.py",
    "pandajedi/jediddm",
)
_RELEASE = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True)
class Commits:
    """The commits since a release.

    Attributes:
        since: the release that they are counted from; empty where the history has none.
        lines: hash, date and subject of each, newest first.
    """

    since: str
    lines: Sequence[str]


def commits_since(checkout: Path, release: str) -> Commits | None:
    """Those since a release, or the newest before it that the history knows; None where there is no history."""
    tags = _git(checkout, "tag", "--merged", "HEAD")
    if tags is None:
        return None
    latest = _numbers(release) or ()
    known = {numbers: tag for tag in tags if (numbers := _numbers(tag)) is not None and numbers <= latest}
    since = known[max(known)] if known else ""
    span = f"{since}..HEAD" if since else "HEAD"
    lines = _git(checkout, "log", "--no-merges", "--date=short", "--format=%h %ad %s", span, "--", *BROKERS)
    return Commits(since, lines or [])


def _numbers(tag: str) -> tuple[int, ...] | None:
    match = _RELEASE.fullmatch(tag)
    return None if match is None else tuple(int(part) for part in match.groups())


def _git(checkout: Path, *arguments: str) -> list[str] | None:
    try:
        done = subprocess.run(["git", "-C", str(checkout), *arguments], check=True, capture_output=True, text=True)  # noqa: S607
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.splitlines()
