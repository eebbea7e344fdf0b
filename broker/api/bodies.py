"""Bodies of requests: read within limits of size, time, packing and depth before anything parses them."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request

from broker.api.problems import Problem
from broker.json_depth import is_too_deep

_GZIP = 16 + zlib.MAX_WBITS
_LESS = "send less, or in parts"


async def read_body(request: Request, most_bytes: int, within_s: float, depth: int) -> bytes:
    """The body of a request, unpacked; also where Starlette keeps the body that it has read.

    Args:
        request: nobody has read its body yet.
        most_bytes: as it comes, and after unpacking.
        within_s: seconds in which all of it must be there.
        depth: to which JSON may nest.

    Raises:
        Problem: 400, 408, 413 or 415: what is wrong with it.
    """
    declared = request.headers.get("content-length")
    if declared is not None and (not declared.isdecimal() or len(declared) > 18):
        raise Problem(400, "bad_content_length", "Content-Length is no number")
    if declared is not None and int(declared) > most_bytes:
        raise _too_large(most_bytes)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise Problem(415, "unknown_content_encoding", "Content-Encoding may be gzip or identity")
    try:
        async with asyncio.timeout(within_s):
            packed = await _all_of(request.stream(), most_bytes)
    except TimeoutError:
        raise Problem(408, "body_too_slow", "the body did not come in time", headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise Problem(400, "client_disconnected", "the client went away") from None
    body = unpacked(packed, most_bytes) if encoding == "gzip" else packed
    if _is_json(request) and is_too_deep(body.decode("utf-8", "replace"), depth):
        raise Problem(400, "json_too_deep", f"the JSON nests deeper than {depth} levels")
    request._body = body
    return body


def unpacked(packed: bytes, most_bytes: int) -> bytes:
    """A gzip stream of one member, unpacked to ``most_bytes`` at most.

    Raises:
        Problem: it is none, is cut short, or would become larger.
    """
    machine = zlib.decompressobj(_GZIP)
    try:
        body = machine.decompress(packed, most_bytes + 1)
    except zlib.error:
        raise Problem(400, "bad_gzip", "the body is no gzip stream") from None
    if len(body) > most_bytes:
        raise _too_large(most_bytes)
    if not machine.eof or machine.unused_data:
        raise Problem(400, "bad_gzip", "the gzip stream is cut short, or followed by something else")
    return body


async def _all_of(stream: AsyncIterator[bytes], most_bytes: int) -> bytes:
    parts, size = [], 0
    async for part in stream:
        size += len(part)
        if size > most_bytes:
            raise _too_large(most_bytes)
        parts.append(part)
    return b"".join(parts)


def _too_large(most_bytes: int) -> Problem:
    return Problem(
        413, "body_too_large", f"the body is larger than {most_bytes} bytes", _LESS, headers={"Connection": "close"}
    )


def _is_json(request: Request) -> bool:
    return "json" in request.headers.get("content-type", "json").lower()
