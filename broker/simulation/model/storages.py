"""Space of the sites' storages: a write that does not fit fails, and copies are deleted by age."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from broker.simulation.model.scenario import Site


class Storages:
    """Used and reserved bytes of each site's storage.

    Args:
        sites: sites with their total and used space.
        lifetime_s: age at which an output copy is deleted.
    """

    def __init__(self, sites: Sequence[Site], lifetime_s: float) -> None:
        self.total = [site.storage_total for site in sites]
        self.used = [site.storage_used for site in sites]
        self.reserved = [0.0 for _ in sites]
        self.written = 0.0
        self.deleted = 0.0
        self._lifetime_s = lifetime_s
        self._copies: list[deque[tuple[float, float]]] = [deque() for _ in sites]

    def reserve(self, site: int, size: float) -> bool:
        """Reserve space for a write. Returns whether it fits."""
        if self.used[site] + self.reserved[site] + size > self.total[site]:
            return False
        self.reserved[site] += size
        return True

    def release(self, site: int, size: float) -> None:
        """Release a reservation."""
        self.reserved[site] = max(0.0, self.reserved[site] - size)

    def write(self, site: int, size: float, now_s: float) -> None:
        """Turn a reservation into a copy that is deleted after its lifetime."""
        self.release(site, size)
        self.used[site] += size
        self.written += size
        self._copies[site].append((now_s + self._lifetime_s, size))

    def delete_old(self, now_s: float) -> None:
        """Delete the copies whose lifetime is over."""
        for site, copies in enumerate(self._copies):
            while copies and copies[0][0] <= now_s:
                size = copies.popleft()[1]
                self.used[site] -= size
                self.deleted += size

    def free(self) -> list[float]:
        """Free bytes of each storage, less reservations."""
        rows = zip(self.total, self.used, self.reserved, strict=True)
        return [total - used - reserved for total, used, reserved in rows]
