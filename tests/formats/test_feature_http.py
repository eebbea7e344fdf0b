from __future__ import annotations

import itertools
import socket
import time
from http.server import BaseHTTPRequestHandler

import pytest

from broker.formats.feature_http import Fetched, fetch, freshness_s
from broker.formats.plain_values import Unreadable
from tests.formats.feature_server import FeatureServer


def ask(server: FeatureServer, path: str = "/j/key", timeout_s: float = 5.0) -> Fetched:
    return fetch(server.base + path, time.monotonic, timeout_s)


@pytest.mark.parametrize(
    ("status", "body", "informed", "content"),
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
def test_what_a_status_means(
    server: FeatureServer, status: int, body: str, informed: bool, content: bytes | None
) -> None:
    server.file("/j/key", body, status)
    answer = ask(server)
    assert (answer.informed, answer.content) == (informed, content)


@pytest.mark.parametrize(("size", "content"), [(4096, b"1" * 4096), (4097, Unreadable("too-long"))])
def test_a_file_of_more_than_4096_bytes_holds_no_value(server: FeatureServer, size: int, content: object) -> None:
    server.file("/j/key", "1" * size)
    assert ask(server).content == content


def test_an_endless_body_is_left_after_4096_bytes(server: FeatureServer) -> None:
    def endless(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        for _ in itertools.count():
            request.wfile.write(b"1" * 1024)

    server.answers["/j/key"] = endless
    assert ask(server) == Fetched(Unreadable("too-long"), informed=True)


def test_a_server_that_trickles_is_left_when_the_time_is_over(server: FeatureServer) -> None:
    def trickle(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(b"1")
        request.wfile.flush()
        server.release.wait(10)

    server.answers["/j/key"] = trickle
    answer = ask(server, timeout_s=0.3)
    assert (answer.informed, answer.content) == (False, None)


def test_a_server_that_says_nothing_is_left_when_the_time_is_over(server: FeatureServer) -> None:
    server.answers["/j/key"] = lambda request: server.release.wait(10) and None
    assert not ask(server, timeout_s=0.3).informed


def test_an_answer_that_is_cut_off_is_none(server: FeatureServer) -> None:
    def cut(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "10")
        request.end_headers()
        request.wfile.write(b"36")

    server.answers["/j/key"] = cut
    assert not ask(server).informed


def test_no_server_is_no_information() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    assert not fetch(f"http://127.0.0.1:{port}/x", time.monotonic).informed


@pytest.mark.parametrize("place", ["/other", "{base}/other"])
def test_a_redirect_within_the_server_is_followed(server: FeatureServer, place: str) -> None:
    server.file("/j/key", "", 302, Location=place.format(base=server.base))
    server.file("/other", "8")
    assert ask(server).content == b"8"


@pytest.mark.parametrize("place", ["http://localhost:{port}/other", "https://127.0.0.1:{port}/other", "file:///etc/x"])
def test_a_redirect_to_another_host_or_scheme_is_refused(server: FeatureServer, place: str) -> None:
    server.file("/j/key", "", 302, Location=place.format(port=server.port))
    server.file("/other", "8")
    answer = ask(server)
    assert (answer.informed, answer.detail) == (False, "redirect to another host or scheme refused")
    assert server.asked == ["/j/key"]


def test_redirects_come_to_an_end(server: FeatureServer) -> None:
    server.file("/j/key", "", 302, Location="/j/key")
    assert ask(server).detail == "more than 3 redirects"
    assert len(server.asked) == 4


def test_proxies_of_the_environment_are_not_used(server: FeatureServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server.file("/j/key", "8")
    assert ask(server).content == b"8"


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
def test_how_long_an_answer_may_be_kept(
    control: str | None, expires: str | None, date: str | None, fresh: float | None
) -> None:
    assert freshness_s(control, expires, date) == fresh
