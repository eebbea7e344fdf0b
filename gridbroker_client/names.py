"""Names of people as one part of a path, as the pages and the API of the broker spell them.

Control characters, ``/`` and ``~`` become ``~`` and two hexadecimal digits for each byte of UTF-8, and so do the dots
of the names ``.`` and ``..``.
"""

from __future__ import annotations

import re
from urllib.parse import quote

_NOT_IN_A_PATH = re.compile(r"[\x00-\x1f\x7f-\x9f/\\~]")


def name_in_path(name: str) -> str:
    """Quote a name for a path."""
    odd = re.compile(r"\.") if name in (".", "..") else _NOT_IN_A_PATH
    return quote(odd.sub(lambda match: "".join(f"~{byte:02x}" for byte in match[0].encode()), name), safe="~")
