from __future__ import annotations

import itertools
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler

import pytest

from broker.formats.model.feature_http import MAX_HEADER_BYTES, KeyResponse, fetch, fetch_all, freshness_s
from broker.formats.model.feature_keys import Unreadable
from tests.formats.feature_server import FeatureServer


def fetch_key(server: FeatureServer, path: str = "/j/key", timeout_s: float = 5.0) -> KeyResponse:
    return fetch(server.base + path, time.monotonic, timeout_s)


@pytest.mark.parametrize(
    ("status", "body", "is_informed", "content"),
    [
        (200, "3600\n", True, b"3600\n"),
        (200, "<html>oops</html>", True, b"<html>oops</html>"),
        (200, "", True, b""),
        (404, "<html>not found</html>", True, None),
        (410, "", True, None),
        (500, "", False, None),
        (503, "3600", False, None),
        (403, "", False, None),
        (204, "", False, None),
    ],
)
def test_the_meaning_of_a_status(
    server: FeatureServer, status: int, body: str, is_informed: bool, content: bytes | None
) -> None:
    server.file("/j/key", body, status)
    answer = fetch_key(server)
    assert (answer.informed, answer.content) == (is_informed, content)


@pytest.mark.parametrize(("size", "content"), [(4096, b"1" * 4096), (4097, Unreadable("too-long"))])
def test_a_file_of_more_than_4096_bytes_holds_no_value(server: FeatureServer, size: int, content: object) -> None:
    server.file("/j/key", "1" * size)
    assert fetch_key(server).content == content


def test_an_endless_body_is_abandoned_after_4096_bytes(server: FeatureServer) -> None:
    def endless(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        for _ in itertools.count():
            request.wfile.write(b"1" * 1024)

    server.answers["/j/key"] = endless
    assert fetch_key(server) == KeyResponse(Unreadable("too-long"), informed=True)


def test_a_server_that_stalls_in_the_body_is_abandoned_after_the_timeout(server: FeatureServer) -> None:
    def trickle(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(b"1")
        request.wfile.flush()
        server.release.wait(10)

    server.answers["/j/key"] = trickle
    answer = fetch_key(server, timeout_s=0.3)
    assert (answer.informed, answer.content) == (False, None)


def test_a_silent_server_is_abandoned_after_the_timeout(server: FeatureServer) -> None:
    server.answers["/j/key"] = lambda request: server.release.wait(10) and None
    assert not fetch_key(server, timeout_s=0.3).informed


def drip(piece: bytes, server: FeatureServer, request: BaseHTTPRequestHandler) -> None:
    """Send a piece every 20 ms: each single wait is far shorter than any limit."""
    while not server.release.wait(0.02):
        request.wfile.write(piece)
        request.wfile.flush()


def failed_fetch_s(server: FeatureServer, timeout_s: float) -> float:
    start = time.monotonic()
    answer = fetch_key(server, timeout_s=timeout_s)
    assert (answer.informed, answer.content) == (False, None)
    return time.monotonic() - start


@pytest.mark.parametrize(
    "piece",
    [b"H", b"X-Header: 1\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"],
    ids=["status line", "headers", "100 Continue"],
)
def test_a_server_that_drips_is_abandoned_after_the_whole_timeout(server: FeatureServer, piece: bytes) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        if piece.startswith(b"X"):
            request.wfile.write(b"HTTP/1.1 200 OK\r\n")
        drip(piece, server, request)

    server.answers["/j/key"] = answer
    assert 0.4 <= failed_fetch_s(server, 0.4) < 2.0


def test_endless_headers_are_abandoned_by_their_size(server: FeatureServer) -> None:
    sent = 0

    def endless(request: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        for _ in itertools.count():
            sent += request.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)

    server.answers["/j/key"] = endless
    answer = fetch_key(server)
    assert (answer.informed, answer.detail) == (False, "more headers than any answer needs")
    assert sent > MAX_HEADER_BYTES


def test_a_body_that_drips_is_abandoned_after_the_timeout(server: FeatureServer) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        drip(b"1", server, request)

    server.answers["/j/key"] = answer
    assert failed_fetch_s(server, 0.4) < 2.0


def test_keys_are_requested_at_once(server: FeatureServer) -> None:
    barrier = threading.Barrier(21)

    def answer(request: BaseHTTPRequestHandler) -> None:
        barrier.wait(10)
        request.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n8")

    addresses = [f"{server.base}/j/{number}" for number in range(21)]
    server.answers |= {f"/j/{number}": answer for number in range(21)}
    answers = fetch_all(addresses, time.monotonic)
    assert answers == dict.fromkeys(addresses, KeyResponse(b"8", informed=True))


def test_the_timeout_covers_all_keys_together(server: FeatureServer) -> None:
    server.answers |= {f"/j/{number}": lambda request: server.release.wait(10) and None for number in range(20)}
    server.file("/j/good", "8")
    addresses = [*(f"{server.base}/j/{number}" for number in range(20)), f"{server.base}/j/good"]
    start = time.monotonic()
    answers = fetch_all(addresses, time.monotonic, 0.5)
    assert time.monotonic() - start < 2.0
    assert answers.pop(addresses[-1]) == KeyResponse(b"8", informed=True)
    assert {answer.informed for answer in answers.values()} == {False}


def test_keys_are_unknown_where_no_thread_can_start(server: FeatureServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    server.file("/j/key", "8")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    answer = fetch_all([server.base + "/j/key"], time.monotonic)[server.base + "/j/key"]
    assert (answer.informed, answer.detail) == (False, "no thread to ask in")


def test_a_truncated_answer_gives_no_information(server: FeatureServer) -> None:
    def cut(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "10")
        request.end_headers()
        request.wfile.write(b"36")

    server.answers["/j/key"] = cut
    assert not fetch_key(server).informed


def test_a_missing_server_gives_no_information() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    assert not fetch(f"http://127.0.0.1:{port}/x", time.monotonic).informed


@pytest.mark.parametrize("place", ["/other", "{base}/other"])
def test_a_redirect_within_the_server_is_followed(server: FeatureServer, place: str) -> None:
    server.file("/j/key", "", 302, Location=place.format(base=server.base))
    server.file("/other", "8")
    assert fetch_key(server).content == b"8"


@pytest.mark.parametrize("place", ["http://localhost:{port}/other", "https://127.0.0.1:{port}/other", "file:///etc/x"])
def test_a_redirect_to_another_host_or_scheme_is_refused(server: FeatureServer, place: str) -> None:
    server.file("/j/key", "", 302, Location=place.format(port=server.port))
    server.file("/other", "8")
    answer = fetch_key(server)
    assert (answer.informed, answer.detail) == (False, "redirect to another host or scheme refused")
    assert server.requests == ["/j/key"]


def test_the_number_of_redirects_is_limited(server: FeatureServer) -> None:
    server.file("/j/key", "", 302, Location="/j/key")
    assert fetch_key(server).detail == "more than 3 redirects"
    assert len(server.requests) == 4


def test_proxies_of_the_environment_are_not_used(server: FeatureServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server.file("/j/key", "8")
    assert fetch_key(server).content == b"8"


@pytest.mark.parametrize(
    ("control", "expires", "date", "fresh"),
    [
        (None, None, None, None),
        ("max-age=120", None, None, 120.0),
        ("public, Max-Age=30", None, None, 30.0),
        ("no-store", None, None, 0.0),
        ("max-age=x", None, None, None),
        (None, "Sat, 01 Aug 2026 12:02:00 GMT", "Sat, 01 Aug 2026 12:00:00 GMT", 120.0),
        (None, "Sat, 01 Aug 2026 11:00:00 GMT", "Sat, 01 Aug 2026 12:00:00 GMT", 0.0),
        (None, "0", "Sat, 01 Aug 2026 12:00:00 GMT", 0.0),
        ("max-age=10", "Sat, 01 Aug 2026 12:02:00 GMT", "Sat, 01 Aug 2026 12:00:00 GMT", 10.0),
    ],
)
def test_how_long_an_answer_may_be_cached(
    control: str | None, expires: str | None, date: str | None, fresh: float | None
) -> None:
    assert freshness_s(control, expires, date) == fresh
