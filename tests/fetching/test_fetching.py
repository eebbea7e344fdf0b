"""Fetching of documents from files and web servers: limits, tries, conditions, redirects, trust and credentials."""

from __future__ import annotations

import contextlib
import dataclasses
import resource
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from broker.fetching.documents import (
    Credentials,
    FetchedDocument,
    FetchTerms,
    NotFetched,
    Surroundings,
    Validators,
    trusted_by,
    try_pause_s,
)
from broker.fetching.web import fetch, path_of, shown
from tests.fetching.web_server import DRIPPING, breaks_off, never_ends, says, serving

BODY = b'{"a": {}}'


class Clock:
    """A clock that only tests move; it records pauses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    @property
    def surroundings(self) -> Surroundings:
        return Surroundings(monotonic=lambda: self.now, jitter=lambda: 0.0, pause=self.pause)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return


def refusal(address: str, clock: Clock, terms: FetchTerms | None = None) -> NotFetched:
    with pytest.raises(NotFetched) as refused:
        fetch(address, terms or FetchTerms(), clock.surroundings)
    return refused.value


def test_a_document_is_fetched_with_its_validators(clock: Clock) -> None:
    with serving(says(200, BODY, ETag='"1"', Last_Modified="Sat, 01 Aug 2026 12:00:00 GMT")) as server:
        fetched = fetch(server.address(), FetchTerms(), clock.surroundings)
    assert fetched == FetchedDocument(BODY, Validators('"1"', "Sat, 01 Aug 2026 12:00:00 GMT"), 1)


def test_an_unchanged_document_is_not_transferred(clock: Clock) -> None:
    validators = Validators('"1"', "Sat, 01 Aug 2026 12:00:00 GMT")
    with serving(says(304)) as server:
        fetched = fetch(server.address(), FetchTerms(), clock.surroundings, validators)
    assert fetched == FetchedDocument(None, validators, 1)
    assert server.asked[0]["If-None-Match"] == '"1"'
    assert server.asked[0]["If-Modified-Since"] == "Sat, 01 Aug 2026 12:00:00 GMT"


def test_304_without_a_condition_is_refused(clock: Clock) -> None:
    with serving(says(304)) as server:
        assert refusal(server.address(), clock).code == "status"


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_three_tries_with_growing_pauses(clock: Clock, status: int) -> None:
    with serving(says(status), says(status), says(200, BODY)) as server:
        assert fetch(server.address(), FetchTerms(pause_s=1), clock.surroundings).tries == 3
    assert clock.pauses == [0.5, 1.0]
    with serving(says(status)) as server:
        refused = refusal(server.address(), clock)
        assert (refused.code, len(server.asked)) == ("status", 3) and str(status) in refused.what


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_permanent_errors_are_not_retried(clock: Clock, status: int) -> None:
    with serving(says(status)) as server:
        assert refusal(server.address(), clock).code == "status" and len(server.asked) == 1


@pytest.mark.parametrize(("tries", "jitter", "pause_s"), [(1, 0.0, 0.5), (1, 1.0, 1.0), (3, 0.5, 3.0)])
def test_pauses(tries: int, jitter: float, pause_s: float) -> None:
    assert try_pause_s(tries, 1.0, jitter) == pause_s


def test_a_truncated_document_is_refused(clock: Clock) -> None:
    with serving(breaks_off) as server:
        assert refusal(server.address(), clock).code == "cut_off" and len(server.asked) == 3


def test_an_unreachable_server(clock: Clock) -> None:
    with serving(says(200)) as server:
        address = server.address()
    refused = refusal(address, clock)
    assert refused.code == "unreachable" and "3 tries" in refused.what


def test_a_server_that_never_answers(clock: Clock) -> None:
    gone = threading.Event()
    with serving(lambda handler: gone.wait(10) and None) as server:
        try:
            assert refusal(server.address(), clock, FetchTerms(time_limit_s=0.1, tries=2)).code == "time_out"
        finally:
            gone.set()


def test_a_server_that_sends_for_too_long(clock: Clock) -> None:
    def slow(handler: object) -> None:
        clock.now += 31
        says(200, BODY)(handler)  # type: ignore[arg-type]

    with serving(slow) as server:
        assert refusal(server.address(), clock, FetchTerms(time_limit_s=30)).code == "time_out"


def test_the_exceeded_time_limit_is_reported(clock: Clock) -> None:
    def slow(handler: object) -> None:
        clock.now += 2
        says(200, BODY)(handler)  # type: ignore[arg-type]

    surroundings = dataclasses.replace(clock.surroundings, left_s=lambda: 1.0)
    with serving(slow) as server, pytest.raises(NotFetched, match="not whole within 1 s"):
        fetch(server.address(), FetchTerms(time_limit_s=30), surroundings)


@pytest.mark.parametrize("kind", DRIPPING)
def test_a_dripping_server_is_abandoned_at_the_time_limit(clock: Clock, kind: str) -> None:
    started_s = time.monotonic()
    with serving(DRIPPING[kind]) as server:
        refused = refusal(server.address(), clock, FetchTerms(time_limit_s=1, tries=1))
    assert (refused.code, len(server.asked)) == ("time_out", 1)
    assert 1 <= time.monotonic() - started_s < 10


def test_a_dripping_handshake_is_abandoned_at_the_time_limit(clock: Clock) -> None:
    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"\x16\x03\x03\x3f\xff")  # a record of 16,383 bytes follows
            while not gone.wait(0.02):
                connection.sendall(b"\x02")

    gone = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=[listening])
        thread.start()
        try:
            address = f"https://127.0.0.1:{listening.getsockname()[1]}/"
            assert refusal(address, clock, FetchTerms(time_limit_s=0.3, tries=1)).code == "time_out"
        finally:
            gone.set()
            thread.join()


def test_no_try_lasts_longer_than_the_remaining_time(clock: Clock) -> None:
    left_s = [1.0, 0.2, 0.0]
    surroundings = dataclasses.replace(clock.surroundings, left_s=lambda: left_s.pop(0))
    with serving(DRIPPING["headers"]) as server, pytest.raises(NotFetched) as refused:
        fetch(server.address(), FetchTerms(time_limit_s=600, pause_s=1), surroundings)
    assert (refused.value.code, len(server.asked), clock.pauses) == ("time_out", 1, [0.2])


def test_200_megabytes_are_not_read(clock: Clock) -> None:
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with serving(never_ends) as server:
        assert refusal(server.address(), clock, FetchTerms(max_bytes=10 * 2**20)).code == "too_large"
        assert len(server.asked) == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 100 * 1024


@pytest.mark.parametrize(("size", "is_refused"), [(20, False), (21, True)])
def test_the_size_of_a_document(clock: Clock, tmp_path: Path, size: int, is_refused: bool) -> None:
    terms = FetchTerms(max_bytes=20)
    path = tmp_path / "document"
    path.write_bytes(b"x" * size)
    with serving(says(200, b"x" * size)) as server:
        for address in (server.address(), str(path), path.as_uri()):
            if is_refused:
                assert refusal(address, clock, terms).code == "too_large"
            else:
                assert fetch(address, terms, clock.surroundings).data == b"x" * size


def test_redirects_within_a_host_are_followed(clock: Clock) -> None:
    with serving(says(302, Location="/elsewhere"), says(200, BODY)) as server:
        assert fetch(server.address(), FetchTerms(), clock.surroundings).data == BODY


@pytest.mark.parametrize(
    "location",
    [
        "http://other.example.org/x",
        "https://127.0.0.1/x",
        "file:///etc/passwd",
        "//other.example.org/",
        "ftp://127.0.0.1/",
    ],
)
def test_redirects_to_other_hosts_or_schemes_are_refused(clock: Clock, location: str) -> None:
    with serving(says(302, Location=location)) as server:
        refused = refusal(server.address(), clock)
        assert refused.code == "redirect" and len(server.asked) == 1


def test_endless_redirects_and_redirects_without_location_are_refused(clock: Clock) -> None:
    with serving(says(302, Location="/again")) as server:
        assert refusal(server.address(), clock).code == "redirect" and len(server.asked) == 4
    with serving(says(301)) as server:
        assert refusal(server.address(), clock).code == "redirect"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def tls_of(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def ca_file(authority: trustme.CA, folder: Path) -> Path:
    authority.cert_pem.write_to_path(folder / "ca.pem")
    return folder / "ca.pem"


def test_a_trusted_certificate_is_accepted(clock: Clock, authority: trustme.CA, tmp_path: Path) -> None:
    terms = FetchTerms(ca_file=ca_file(authority, tmp_path))
    with serving(says(200, BODY), tls=tls_of(authority, "127.0.0.1")) as server:
        assert fetch(server.address(), terms, clock.surroundings).data == BODY


@pytest.mark.parametrize("fault", ["other authority", "other name"])
def test_an_untrusted_certificate_is_refused(clock: Clock, authority: trustme.CA, tmp_path: Path, fault: str) -> None:
    trusted_authority = trustme.CA() if fault == "other authority" else authority
    name = "127.0.0.1" if fault == "other authority" else "cric.example.org"
    with serving(says(200, BODY), tls=tls_of(authority, name)) as server:
        refused = refusal(server.address(), clock, FetchTerms(ca_file=ca_file(trusted_authority, tmp_path)))
        assert refused.code == "certificate" and server.asked == [] and clock.pauses == []


def test_a_client_certificate_is_reread_for_each_request(clock: Clock, authority: trustme.CA, tmp_path: Path) -> None:
    server_context = tls_of(authority, "127.0.0.1")
    server_context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(server_context)
    certificate = tmp_path / "client.pem"
    terms = FetchTerms(
        tries=1, ca_file=ca_file(authority, tmp_path), credentials=Credentials(client_certificate=certificate)
    )
    with serving(says(200, BODY), tls=server_context) as server:
        assert refusal(server.address(), clock, terms).code == "credentials"
        authority.issue_cert("broker@example.org").private_key_and_cert_chain_pem.write_to_path(certificate)
        assert fetch(server.address(), terms, clock.surroundings).data == BODY


def test_a_token_is_reread_and_never_sent_unencrypted(clock: Clock, tmp_path: Path) -> None:
    token = tmp_path / "token"
    terms = FetchTerms(tries=1, credentials=Credentials(bearer_token_file=token))
    with serving(says(200, BODY)) as server:
        assert refusal(server.address(), clock, terms).code == "credentials"
        for value in ("first", "second"):
            token.write_text(f"{value}\n")
            fetch(server.address(), terms, clock.surroundings)
        assert [headers["Authorization"] for headers in server.asked] == ["Bearer first", "Bearer second"]
    assert refusal("http://cric.example.org/x", clock, terms).code == "credentials", "never without encryption"


@pytest.mark.parametrize("content", ["", "two words", "\n"])
def test_a_file_without_a_token_is_refused(clock: Clock, tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    terms = FetchTerms(credentials=Credentials(bearer_token_file=tmp_path / "token"))
    with serving(says(200, BODY)) as server:
        assert refusal(server.address(), clock, terms).code == "credentials" and server.asked == []


def test_proxies_come_from_the_usual_variables(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(says(200, BODY)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.address(""))
        assert fetch("http://cric.example.org/x", FetchTerms(), clock.surroundings).data == BODY
        assert proxy.asked[0]["Host"] == "cric.example.org"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (None, None)),
        ({"REQUESTS_CA_BUNDLE": "/b", "CURL_CA_BUNDLE": "/c"}, (Path("/b"), None)),
        ({"SSL_CERT_FILE": "/a", "REQUESTS_CA_BUNDLE": "/b"}, (Path("/a"), None)),
        ({"X509_CERT_DIR": "/d", "SSL_CERT_FILE": ""}, (None, Path("/d"))),
    ],
)
def test_trusted_certificates_come_from_the_usual_variables(
    variables: dict[str, str], expected: tuple[Path | None, Path | None]
) -> None:
    assert trusted_by(variables) == expected


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("ftp://x/y", "address"),
        ("file://elsewhere/x", "address"),
        ("missing.json", "file"),
        ("/dev/null", "file"),
        (".", "file"),
    ],
)
def test_invalid_addresses_are_refused(clock: Clock, address: str, code: str) -> None:
    assert refusal(address, clock).code == code


@pytest.mark.parametrize(
    "address",
    ["http://user:word@127.0.0.1:1/x?key=word", "ftp://user:word@host/x?key=word", "file://user:word@host/x?key=word"],
)
def test_no_refusal_shows_secrets_of_an_address(clock: Clock, address: str) -> None:
    refused = refusal(address, clock)
    assert "word" not in f"{refused} {refused.where}"


def test_secrets_of_an_address_are_not_shown() -> None:
    assert shown("https://user:word@host:8/x?X-Amz-Signature=secret#word") == "https://host:8/x"
    assert shown("/data/sites?1#2.json") == "/data/sites?1#2.json", "a path has neither"
    assert path_of("https://host/x") is None and path_of("file:///a%20b") == Path("/a b")
