"""The names under which the service may be asked: a page of somebody else whose name leads here is not answered.

A browser takes ``evil.example``, once its owner lets that name lead to 127.0.0.1, for one site with what answers there
(DNS rebinding); the only thing that differs is the header ``Host``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

ANY = "*"
MOST_REMEMBERED = 256
#: Probes name a machine by its address, and are told nothing that anybody might not know.
_FOR_PROBES = "/health/"


class Hosts:
    """Knows the names that may be asked for.

    Args:
        allowed: names or addresses without a port; ``*.example.org``: all below a name; ``*``: any.
    """

    def __init__(self, allowed: Iterable[str]) -> None:
        names = [one.lower().strip("[]") for one in allowed]
        self._any = ANY in names
        self._names = frozenset(names)
        self._below = tuple(one[1:] for one in names if one.startswith("*."))
        self._judged = lru_cache(MOST_REMEMBERED)(self._judge)

    def is_allowed(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether a request with these headers is for us."""
        if self._any or path.startswith(_FOR_PROBES):
            return True
        given = [value for name, value in headers if name == b"host"]
        return len(given) == 1 and self._judged(given[0])

    def _judge(self, host: bytes) -> bool:
        try:
            name = (urlsplit(f"//{host.decode('ascii')}").hostname or "").rstrip(".")
        except ValueError:
            return False
        return name in self._names or (bool(self._below) and name.endswith(self._below))
