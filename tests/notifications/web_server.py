"""A web server on this machine that keeps what is sent to it."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from typing import Any


@dataclass
class Receiver:
    """A server that is running.

    Attributes:
        got: headers and bodies, in order.
        answers: statuses of the next answers; 200 when there are none left. 0: it says nothing until the end.
    """

    port: int = 0
    scheme: str = "http"
    got: list[tuple[Message, bytes]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/hook/secret"

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]


@contextmanager
def receiver(tls: ssl.SSLContext | None = None, port: int = 0) -> Iterator[Receiver]:
    """Run a server until the block ends."""
    found = Receiver(scheme="http" if tls is None else "https")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = found.answers.pop(0) if found.answers else 200
            found.got.append((self.headers, body))
            if status == 0:
                found.ending.wait()
                return
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", found.address)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    class Server(http.server.ThreadingHTTPServer):
        allow_reuse_address = True
        daemon_threads = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that went away is no matter here."""

    server = Server(("127.0.0.1", port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield found
    finally:
        found.ending.set()
        server.shutdown()
        thread.join()
        server.server_close()
