"""A real web server for one test: it answers by path and records the paths of the requests."""

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
    requests: list[str] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def file(self, path: str, text: str, status: int = 200, **headers: str) -> None:
        self.answers[path] = plain_answer(text.encode(), status, headers)


def plain_answer(body: bytes, status: int, headers: dict[str, str]) -> Answer:
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
    features = FeatureServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            features.requests.append(self.path)
            answer = features.answers.get(self.path, plain_answer(b"<html>not found</html>", 404, {}))
            with contextlib.suppress(ConnectionError):
                answer(self)

        def log_message(self, format: str, *args: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        request_queue_size = 64  # all keys are requested at once

    server = Server(("127.0.0.1", 0), Handler)
    features.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield features
    finally:
        features.release.set()
        server.shutdown()
        server.server_close()
        thread.join()
