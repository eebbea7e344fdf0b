"""Both HTTP protocol classes on a socket: they accept and refuse the same requests, and do not wait for slow ones."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from broker.api import server as protocols
from broker.api.head_timeout import HEAD_BYTES, HeadTimeoutH11
from broker.api.http_httptools import MOST_PIPELINED, HeadTimeoutHttpTools
from broker.api.server import protocol

LAST = b"Host: x\r\nConnection: close\r\n"
GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
GET_LAST = b"GET /z HTTP/1.1\r\n" + LAST + b"\r\n"
POST = b"POST /a HTTP/1.1\r\n"
CHUNKED = POST + LAST + b"Transfer-Encoding: chunked\r\n\r\n"
MOST_TURNS = 1000
BOTH = pytest.mark.parametrize("kind", [HeadTimeoutH11, HeadTimeoutHttpTools])


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope, receive)
    body = (await request.body()).decode()
    document = {"path": scope["path"], "body": body, "a": request.headers.get("a"), "t": request.headers.get("t")}
    await JSONResponse(document)(scope, receive, send)


def answer_to(kind: type[asyncio.Protocol], *parts: bytes, head_within_s: float = 30.0) -> bytes:
    """All bytes the server sends in answer to ``parts``, read part by part, until it closes the connection."""
    bytes_read = 0

    class CountingProtocol(kind):  # type: ignore[valid-type, misc]
        def data_received(self, data: bytes) -> None:
            nonlocal bytes_read
            super().data_received(data)
            bytes_read += len(data)

    CountingProtocol.head_within_s = head_within_s

    async def exchange() -> bytes:
        config = uvicorn.Config(
            echo, ws="none", lifespan="off", log_config=None, h11_max_incomplete_event_size=HEAD_BYTES
        )
        config.load()
        state, loop, bytes_written = ServerState(), asyncio.get_running_loop(), 0
        server = await loop.create_server(lambda: CountingProtocol(config, state, {}, loop), "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
            with contextlib.closing(writer):
                for part in parts:
                    writer.write(part)
                    bytes_written += len(part)
                    for _ in range(MOST_TURNS):  # no bytes are counted after the connection was handed over
                        if bytes_read >= bytes_written or reader.at_eof():
                            break
                        await asyncio.sleep(0)
                return await asyncio.wait_for(reader.read(), 20)

    return asyncio.run(exchange())


def bodies_of(answer: bytes) -> list[dict[str, str | None]]:
    """The bodies of all answers."""
    return [json.loads(body) for body in re.findall(rb"{[^}]*}", answer)]


@BOTH
@pytest.mark.parametrize(
    "raw_request",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        POST + b"Host: x\r\nContent-Length: -1\r\n\r\n",
        POST + b"Host: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
)
def test_a_malformed_request_is_refused(kind: type[asyncio.Protocol], raw_request: bytes) -> None:
    answer = answer_to(kind, raw_request[:40], raw_request[40:])
    assert answer.startswith(b"HTTP/1.1 400 ") and not bodies_of(answer)


@BOTH
@pytest.mark.parametrize("raw_request", [b"GET / HTTP/1.1\r\nHost: x\r\nA: ", CHUNKED + b"0\r\nT: ", CHUNKED + b"1;"])
def test_a_flood_is_cut_off(kind: type[asyncio.Protocol], raw_request: bytes) -> None:
    try:
        answer = answer_to(kind, raw_request, b"y" * (2 * HEAD_BYTES))
    except ConnectionError:  # the server had stopped reading before the end of the flood
        return
    assert not bodies_of(answer)


@BOTH
@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([GET_LAST], [("/z", "", None)]),
        ([GET_LAST[:3], GET_LAST[3:20], GET_LAST[20:]], [("/z", "", None)]),
        ([GET + GET + GET_LAST], [("/a", "", None), ("/a", "", None), ("/z", "", None)]),
        ([POST + LAST + b"A:  b \t\r\nContent-Length: 2\r\n\r\nh", b"i"], [("/a", "hi", "b")]),
        ([CHUNKED + b"1;x=y\r\nh\r\n1\r\ni\r\n0\r\nT: smuggled\r\nA: b\r\n\r\n"], [("/a", "hi", None)]),
        ([b"GET /a HTTP/1.0\r\n\r\n"], [("/a", "", None)]),
    ],
)
def test_both_protocols_read_requests_alike(
    kind: type[asyncio.Protocol], parts: list[bytes], expected: list[tuple[str, str, str | None]]
) -> None:
    bodies = bodies_of(answer_to(kind, *parts))
    assert [(body["path"], body["body"], body["a"]) for body in bodies] == expected
    assert all(body["t"] is None for body in bodies)


@BOTH
@pytest.mark.parametrize("cut", [10, 60, 140, 1000])
def test_an_upgrade_is_ignored_and_the_request_answered(kind: type[asyncio.Protocol], cut: int) -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n"
    raw_request = POST + b"Host: x\r\n" + offer + b"Content-Length: 2\r\n\r\nhi" + GET_LAST
    bodies = bodies_of(answer_to(kind, raw_request[:cut], raw_request[cut:]))
    assert [(body["path"], body["body"]) for body in bodies] == [("/a", "hi"), ("/z", "")]


@BOTH
@pytest.mark.parametrize("raw_request", [b"", b"GET /", b"\r\n\r\n", GET[:-2]])
def test_a_connection_without_a_complete_head_is_closed(kind: type[asyncio.Protocol], raw_request: bytes) -> None:
    assert not bodies_of(answer_to(kind, raw_request, head_within_s=0.05))


def test_a_connection_without_a_complete_second_head_is_closed() -> None:
    answer = answer_to(HeadTimeoutHttpTools, GET + b"GET /b HT", head_within_s=0.05)
    assert answer.startswith(b"HTTP/1.1 200 ") and len(bodies_of(answer)) == 1


def test_few_pipelined_requests_may_wait_for_the_previous_answer() -> None:
    assert len(bodies_of(answer_to(HeadTimeoutHttpTools, GET * MOST_PIPELINED + GET_LAST))) == MOST_PIPELINED + 1
    answer = answer_to(HeadTimeoutHttpTools, GET * (MOST_PIPELINED + 2) + GET_LAST)
    assert b"HTTP/1.1 400 " in answer and len(bodies_of(answer)) < MOST_PIPELINED


def test_requests_are_read_in_python_without_the_c_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert issubclass(protocol(3.0), HeadTimeoutHttpTools)
    monkeypatch.setattr(protocols, "find_spec", lambda name: None)
    pure_python = protocol(3.0)
    assert issubclass(pure_python, HeadTimeoutH11) and pure_python.head_within_s == 3.0
