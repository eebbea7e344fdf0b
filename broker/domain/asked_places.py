"""What the jobs of a chunk require of Site, CE and queue, as one text: a SubmitPool, sites, and banned sites."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class AskedPlaces:
    """Where jobs may run.

    Attributes:
        pool: identifier of the SubmitPool; None without.
        sites: of which one is wanted; none: any.
        banned: sites that are not wanted.
    """

    pool: str | None = None
    sites: tuple[str, ...] = ()
    banned: tuple[str, ...] = ()

    def admits(self, site: str | None) -> bool:
        """Whether a place at this site will do."""
        return (not self.sites or site in self.sites) and site not in self.banned


def format_asked_places(asked: AskedPlaces) -> str:
    """The text for it."""
    return json.dumps([asked.pool, list(asked.sites), list(asked.banned)], separators=(",", ":"))


@lru_cache(maxsize=4096)
def parse_asked_places(text: str | None) -> AskedPlaces:
    """What was given to :func:`format_asked_places`; nothing is asked for by None."""
    if text is None:
        return AskedPlaces()
    pool, sites, banned = json.loads(text)
    return AskedPlaces(pool, tuple(sites), tuple(banned))
