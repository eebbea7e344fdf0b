"""A local web server that records the requests it receives."""

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
    """A running server.

    Attributes:
        got: headers and bodies of the requests, in order.
        answers: statuses of the next answers, 200 by default; 0 keeps silent until the end.
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
    state = Receiver(scheme="http" if tls is None else "https")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = state.answers.pop(0) if state.answers else 200
            state.got.append((self.headers, body))
            if status == 0:
                state.ending.wait()
                return
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", state.address)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    class Server(http.server.ThreadingHTTPServer):
        allow_reuse_address = True
        daemon_threads = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Ignore clients that went away."""

    server = Server(("127.0.0.1", port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        state.ending.set()
        server.shutdown()
        thread.join()
        server.server_close()
