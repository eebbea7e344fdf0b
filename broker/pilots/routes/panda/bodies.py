"""Bodies of requests: read with limits before anything is parsed, as a form or as JSON, perhaps compressed."""

from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request

from broker.json_depth import is_too_deep

MOST_BYTES = 8 * 2**20
READ_WITHIN_S = 30.0
MOST_FIELDS = 300


class BodyRefused(ValueError):
    """A body that cannot be used.

    Attributes:
        status: HTTP status of the answer.
    """

    def __init__(self, status: int, what: str) -> None:
        super().__init__(what)
        self.status = status


async def read_fields(request: Request) -> dict[str, Any]:
    """The fields of a form, or of a JSON object where the content is JSON.

    Raises:
        BodyRefused: it is too large, too slow, or neither of these.
    """
    body = await _read(request)
    if "json" in request.headers.get("content-type", ""):
        return _object(body)
    try:
        pairs = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise BodyRefused(400, "too many fields") from error
    return dict(pairs)


async def read_json(request: Request) -> dict[str, Any]:
    """The JSON object in a body; an empty body is an empty object.

    Raises:
        BodyRefused: it is too large, too slow, or no JSON object.
    """
    body = await _read(request)
    return _object(body) if body.strip() else {}


async def _read(request: Request) -> bytes:
    declared = request.headers.get("content-length", "0")
    if not declared.isdigit() or int(declared) > MOST_BYTES:
        raise BodyRefused(413, f"more than {MOST_BYTES} bytes")
    parts, size = [], 0
    try:
        async with asyncio.timeout(READ_WITHIN_S):
            async for part in request.stream():
                size += len(part)
                if size > MOST_BYTES:
                    raise BodyRefused(413, f"more than {MOST_BYTES} bytes")
                parts.append(part)
    except TimeoutError as error:
        raise BodyRefused(408, f"the body took more than {READ_WITHIN_S:g} s") from error
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding in ("gzip", "deflate"):
        return _decompressed(b"".join(parts))
    if coding != "identity":
        raise BodyRefused(415, "the content is gzip or not encoded")
    return b"".join(parts)


def _decompressed(body: bytes) -> bytes:
    """The content of gzip or zlib; never more than a body may have."""
    decoder = zlib.decompressobj(wbits=47)
    try:
        content = decoder.decompress(body, MOST_BYTES + 1)
    except zlib.error as error:
        raise BodyRefused(400, "no gzip content") from error
    if len(content) > MOST_BYTES:
        raise BodyRefused(413, f"more than {MOST_BYTES} bytes")
    return content


def _object(body: bytes) -> dict[str, Any]:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BodyRefused(400, "no UTF-8") from error
    if is_too_deep(text):
        raise BodyRefused(400, "it nests too deep")
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BodyRefused(400, "no JSON") from error
    if not isinstance(content, dict):
        raise BodyRefused(400, "no JSON object")
    return content


def _refuse_constant(word: str) -> Any:
    raise ValueError(word)
