"""How many requests somebody may make: a bucket of tokens for each, in this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from broker.access.roles import Identity
from broker.api.configuration import Rate, RateSection

MOST_KNOWN = 10_000
"""Names that are remembered; who was not seen for longest is forgotten, with a full bucket."""


@dataclass
class _Bucket:
    left: float
    seen_s: float


class RateLimiter:
    """Counts requests by name.

    Args:
        rates: by role.
        steady_s: a clock that never goes back, in seconds.
    """

    def __init__(self, rates: RateSection, steady_s: Callable[[], float]) -> None:
        self._rates, self._steady_s = rates, steady_s
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_s(self, identity: Identity | None, address: str, stranger: str = "anonymous") -> float:
        """Take one request of somebody: 0, or the seconds until there is one to take.

        Args:
            identity: who sent it; None: nobody known.
            address: that it came from.
            stranger: the rate that counts for an address nobody is known at.
        """
        rate: Rate = getattr(self._rates, stranger) if identity is None else self._rate_of(identity)
        name = f"{stranger} {address}" if identity is None else f"{identity.issuer} {identity.subject}"
        now_s = self._steady_s()
        bucket = self._buckets.pop(name, None) or _Bucket(float(rate.burst), now_s)
        bucket.left = min(float(rate.burst), bucket.left + (now_s - bucket.seen_s) * rate.per_s)
        bucket.seen_s = now_s
        self._buckets[name] = bucket
        if len(self._buckets) > MOST_KNOWN:
            self._buckets.popitem(last=False)
        if bucket.left < 1.0:
            return (1.0 - bucket.left) / rate.per_s
        bucket.left -= 1.0
        return 0.0

    def _rate_of(self, identity: Identity) -> Rate:
        if not identity.grants:
            return self._rates.anonymous
        found: list[Rate] = [getattr(self._rates, role.value) for role in identity.grants]
        return max(found, key=lambda rate: rate.per_s)
