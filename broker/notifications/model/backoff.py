"""How long to wait after a failed attempt to deliver a message."""

from __future__ import annotations

_MOST_DOUBLINGS = 30


def pause_s(tries: int, first_s: float, longest_s: float) -> float:
    """Return the seconds to the next attempt after ``tries`` earlier failures: doubled each time, up to the longest.

    >>> [pause_s(tries, 30, 200) for tries in range(5)]
    [30.0, 60.0, 120.0, 200, 200]
    """
    return min(longest_s, first_s * 2.0 ** min(tries, _MOST_DOUBLINGS))
