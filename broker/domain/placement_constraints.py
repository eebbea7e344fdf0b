"""Required Site, CE and queue of the jobs of a chunk: a SubmitPool, sites, and banned sites.

Source: DIRAC RFC 7, Job Requirements.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PlacementConstraints:
    """Where jobs may run.

    Attributes:
        pool: identifier of the SubmitPool; None without.
        sites: of which one is required; none: any.
        banned: sites at which they must not run.
    """

    pool: str | None = None
    sites: tuple[str, ...] = ()
    banned: tuple[str, ...] = ()

    def admits(self, site: str | None) -> bool:
        """Whether jobs may run at this site."""
        return (not self.sites or site in self.sites) and site not in self.banned

    def stored(self) -> list[Any]:
        """The constraints as JSON, as stored with a decision."""
        return [self.pool, list(self.sites), list(self.banned)]

    @classmethod
    def of_stored(cls, value: Any) -> PlacementConstraints:
        """Read the JSON of :meth:`stored`, or its text in work of older engines.

        Raises:
            ValueError: it is nothing of the kind.
            TypeError: it is nothing of the kind.
        """
        pool, sites, banned = json.loads(value) if isinstance(value, str) else value
        return cls(pool, tuple(sites), tuple(banned))


UNCONSTRAINED = PlacementConstraints()
