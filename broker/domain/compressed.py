"""Compressed parts of stored forms, read with a limit: a few damaged bytes must not fill the memory."""

from __future__ import annotations

import zlib

#: What a part of a decision takes at most.
_MAX_BYTES = 64 * 1024 * 1024


def decompressed(data: bytes) -> bytes:
    """Inflate compressed bytes, refusing more than the limit.

    Raises:
        ValueError: it ends too early, or is larger than any part of a decision.
        zlib.error: it is damaged.

    >>> decompressed(zlib.compress(b"reasons"))
    b'reasons'
    """
    opener = zlib.decompressobj()
    body = opener.decompress(data, _MAX_BYTES)
    if not opener.eof:
        raise ValueError("they end too early")
    return body
