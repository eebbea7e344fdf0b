"""Both protocols that read requests, on a socket: they let in the same, refuse the same, and wait for nobody."""

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
from broker.api.head_timeout import HEAD_BYTES, PatientH11
from broker.api.http_httptools import MOST_PIPELINED, PatientHttpTools
from broker.api.server import protocol

LAST = b"Host: x\r\nConnection: close\r\n"
GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
GET_LAST = b"GET /z HTTP/1.1\r\n" + LAST + b"\r\n"
POST = b"POST /a HTTP/1.1\r\n"
CHUNKED = POST + LAST + b"Transfer-Encoding: chunked\r\n\r\n"
MOST_TURNS = 1000
BOTH = pytest.mark.parametrize("kind", [PatientH11, PatientHttpTools])


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope, receive)
    body = (await request.body()).decode()
    said = {"path": scope["path"], "body": body, "a": request.headers.get("a"), "t": request.headers.get("t")}
    await JSONResponse(said)(scope, receive, send)


def answered(kind: type[asyncio.Protocol], *parts: bytes, head_within_s: float = 30.0) -> bytes:
    """All that the server says to these bytes, which it reads part by part, until it closes the connection."""
    read = 0

    class Patient(kind):  # type: ignore[valid-type, misc]
        def data_received(self, data: bytes) -> None:
            nonlocal read
            super().data_received(data)
            read += len(data)

    Patient.head_within_s = head_within_s

    async def ask() -> bytes:
        config = uvicorn.Config(
            echo, ws="none", lifespan="off", log_config=None, h11_max_incomplete_event_size=HEAD_BYTES
        )
        config.load()
        state, loop, written = ServerState(), asyncio.get_running_loop(), 0
        server = await loop.create_server(lambda: Patient(config, state, {}, loop), "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
            with contextlib.closing(writer):
                for part in parts:
                    writer.write(part)
                    written += len(part)
                    for _ in range(MOST_TURNS):  # after a connection was handed over nobody counts
                        if read >= written or reader.at_eof():
                            break
                        await asyncio.sleep(0)
                return await asyncio.wait_for(reader.read(), 20)

    return asyncio.run(ask())


def said(answer: bytes) -> list[dict[str, str | None]]:
    """The bodies of all answers."""
    return [json.loads(one) for one in re.findall(rb"{[^}]*}", answer)]


@BOTH
@pytest.mark.parametrize(
    "asked",
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
def test_what_is_no_request_is_refused(kind: type[asyncio.Protocol], asked: bytes) -> None:
    answer = answered(kind, asked[:40], asked[40:])
    assert answer.startswith(b"HTTP/1.1 400 ") and not said(answer)


@BOTH
@pytest.mark.parametrize("asked", [b"GET / HTTP/1.1\r\nHost: x\r\nA: ", CHUNKED + b"0\r\nT: ", CHUNKED + b"1;"])
def test_a_flood_is_cut_off(kind: type[asyncio.Protocol], asked: bytes) -> None:
    try:
        answer = answered(kind, asked, b"y" * (2 * HEAD_BYTES))
    except ConnectionError:  # the end of the flood came when nobody read any more
        return
    assert not said(answer)


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
def test_requests_are_read_alike(
    kind: type[asyncio.Protocol], parts: list[bytes], expected: list[tuple[str, str, str | None]]
) -> None:
    found = said(answered(kind, *parts))
    assert [(one["path"], one["body"], one["a"]) for one in found] == expected
    assert all(one["t"] is None for one in found)


@BOTH
@pytest.mark.parametrize("cut", [10, 60, 140, 1000])
def test_nobody_takes_up_another_protocol_and_the_request_is_answered(kind: type[asyncio.Protocol], cut: int) -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n"
    asked = POST + b"Host: x\r\n" + offer + b"Content-Length: 2\r\n\r\nhi" + GET_LAST
    found = said(answered(kind, asked[:cut], asked[cut:]))
    assert [(one["path"], one["body"]) for one in found] == [("/a", "hi"), ("/z", "")]


@BOTH
@pytest.mark.parametrize("asked", [b"", b"GET /", b"\r\n\r\n", GET[:-2]])
def test_a_head_that_does_not_come_is_not_waited_for(kind: type[asyncio.Protocol], asked: bytes) -> None:
    assert not said(answered(kind, asked, head_within_s=0.05))


def test_nor_is_the_next_one() -> None:
    answer = answered(PatientHttpTools, GET + b"GET /b HT", head_within_s=0.05)
    assert answer.startswith(b"HTTP/1.1 200 ") and len(said(answer)) == 1


def test_no_more_than_a_few_wait_for_the_answer_before() -> None:
    assert len(said(answered(PatientHttpTools, GET * MOST_PIPELINED + GET_LAST))) == MOST_PIPELINED + 1
    answer = answered(PatientHttpTools, GET * (MOST_PIPELINED + 2) + GET_LAST)
    assert b"HTTP/1.1 400 " in answer and len(said(answer)) < MOST_PIPELINED


def test_without_the_package_in_c_requests_are_read_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert issubclass(protocol(3.0), PatientHttpTools)
    monkeypatch.setattr(protocols, "find_spec", lambda name: None)
    found = protocol(3.0)
    assert issubclass(found, PatientH11) and found.head_within_s == 3.0
