"""A web server with answers defined by a test, with or without TLS."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message

Handler = http.server.BaseHTTPRequestHandler
Answer = Callable[[Handler], None]


@dataclass
class WebServer:
    """A running server.

    Attributes:
        answers: the answers, one after the other; the last one is repeated.
        asked: the headers of each request.
    """

    answers: list[Answer]
    port: int = 0
    scheme: str = "http"
    host: str = "127.0.0.1"
    asked: list[Message] = field(default_factory=list)

    def address(self, path: str = "/document") -> str:
        """The URL of a path on the server."""
        return f"{self.scheme}://{self.host}:{self.port}{path}"


def says(status: int, body: bytes = b"", **headers: str) -> Answer:
    """An answer with a body; underscores in names of headers become hyphens."""

    def answer(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def breaks_off(handler: Handler) -> None:
    """The body ends before the announced length."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b'{"a": ')
    handler.wfile.flush()
    handler.connection.close()


def never_ends(handler: Handler) -> None:
    """A body of up to 200 MB, until the client closes the connection."""
    handler.send_response(200)
    handler.end_headers()
    try:
        for _ in range(200):
            handler.wfile.write(b" " * 2**20)
    except OSError:
        handler.close_connection = True


def drips(start: bytes, chunk: bytes, every_s: float = 0.02) -> Answer:
    """An answer that begins with ``start`` and repeats ``chunk`` until the client closes the connection."""

    def answer(handler: Handler) -> None:
        gone = threading.Event()
        handler.close_connection = True
        try:
            handler.wfile.write(start)
            while not gone.wait(every_s):
                handler.wfile.write(chunk)
        except OSError:
            gone.set()

    return answer


HEAD = b"HTTP/1.1 200 OK\r\n"
DRIPPING = {
    "status line": drips(b"", b"H"),
    "one byte of a header at a time": drips(HEAD + b"X: ", b"x"),
    "headers": drips(HEAD, b"X: y\r\n"),
    "100 Continue": drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "100 Continue without a pause": drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, 0),
    "extension of a chunk": drips(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x"),
    "body": drips(HEAD + b"Content-Length: 100000\r\n\r\n", b"x"),
    "trailers": drips(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", b"X: y\r\n"),
}
"""Answers that never end; each read of them gets something."""


@contextmanager
def serving(*answers: Answer, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Iterator[WebServer]:
    """Run a server with the given answers."""
    server = WebServer(list(answers), scheme="https" if tls else "http", host=host)

    class Handling(Handler):
        def do_GET(self) -> None:  # noqa: N802 - the name of the base class
            server.asked.append(self.headers)
            answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
            answer(self)

        do_POST = do_GET  # noqa: N815 - the name of the base class

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    class Quiet(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Ignore clients that disconnect or do not trust the certificate: tests provoke both."""

    listening = Quiet(("127.0.0.1", 0), Handling)
    if tls is not None:
        listening.socket = tls.wrap_socket(listening.socket, server_side=True)
    server.port = listening.server_address[1]
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
