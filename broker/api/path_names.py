"""Names of people as one part of a path. Control characters and ``/`` have no place in one, whatever their escape.

They stand as ``~`` and two hexadecimal digits for each byte of UTF-8; ``~`` itself as ``~7e``, and the dots of a name
that is nothing else.
"""

from __future__ import annotations

import re
from urllib.parse import quote

_NOT_IN_A_PATH = re.compile(r"[\x00-\x1f\x7f-\x9f/\\~]")
_ONLY_DOTS = re.compile(r"\.{1,2}")
_WRITTEN = re.compile(rb"~([0-9a-fA-F]{2})")


def to_path(name: str) -> str:
    """A name as a part of an address, which :func:`from_path` reads again."""
    odd = _ONLY_DOTS if _ONLY_DOTS.fullmatch(name) else _NOT_IN_A_PATH
    plain = odd.sub(lambda found: "".join(f"~{byte:02x}" for byte in found[0].encode()), name)
    return quote(plain, safe="~")


def from_path(part: str) -> str:
    """The name that a part of a path, its percent signs resolved, stands for; what is no UTF-8 stands as it is."""
    try:
        return _WRITTEN.sub(lambda found: bytes([int(found[1], 16)]), part.encode()).decode()
    except UnicodeDecodeError:
        return part
