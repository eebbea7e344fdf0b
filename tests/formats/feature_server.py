"""A real web server for one test: answers by path, remembers what was asked."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class FeatureServer:
    port: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def file(self, path: str, text: str, status: int = 200, **headers: str) -> None:
        self.answers[path] = plain(text.encode(), status, headers)


def plain(body: bytes, status: int, headers: dict[str, str]) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return answer


@contextlib.contextmanager
def serving() -> Iterator[FeatureServer]:
    known = FeatureServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known.asked.append(self.path)
            answer = known.answers.get(self.path, plain(b"<html>not found</html>", 404, {}))
            with contextlib.suppress(ConnectionError):
                answer(self)

        def log_message(self, format: str, *args: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        request_queue_size = 64  # all keys are asked for at once

    server = Server(("127.0.0.1", 0), Handler)
    known.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield known
    finally:
        known.release.set()
        server.shutdown()
        server.server_close()
        thread.join()
