"""A server that plays PanDA's API: it accepts requests to end jobs, and answers as PanDA does."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Respond = Callable[[dict[str, Any]], tuple[int, Any]]


KILLS, WHO = "/api/v1/job/kill", "/api/v1/system/get_user_attributes"


def says_yes(body: dict[str, Any]) -> tuple[int, Any]:
    return 200, {"success": True, "message": "", "data": [True for _ in body["job_ids"]]}


def says_no(body: dict[str, Any]) -> tuple[int, Any]:
    """Without the production role PanDA answers success, and False for each job that is another user's."""
    return 200, {"success": True, "message": "", "data": [False for _ in body["job_ids"]]}


@dataclass
class PlayedPanda:
    """The server: its requests in order, how it responds, and whether the caller has the production role."""

    respond: Respond = says_yes
    production: bool = True
    port: int = 0
    asked: list[tuple[str, dict[str, Any], dict[str, str]]] = field(default_factory=list)

    def options(self, **settings: Any) -> dict[str, Any]:
        """Options of an agent that sends its requests to this server."""
        server = {"address": f"http://127.0.0.1:{self.port}/api", "requests_per_s": 100.0, **settings}
        return {"through": "panda_api", "panda_api": server}

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for path, body, _ in self.asked if path == KILLS]

    def identity(self) -> tuple[int, Any]:
        """The answer to who the caller is."""
        fqans = ["/atlas/Role=production"] if self.production else []
        data = {"user_dn_clean": "Grid Broker", "fqans": fqans, "is_production_user": self.production}
        return 200, {"success": True, "message": "", "data": data}


@contextmanager
def played_panda(respond: Respond = says_yes) -> Iterator[PlayedPanda]:
    """The server while it runs."""
    panda = PlayedPanda(respond)

    class Handling(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            panda.asked.append((self.path, body, dict(self.headers)))
            self.answer(*panda.respond(body))

        def do_GET(self) -> None:
            panda.asked.append((self.path, {}, dict(self.headers)))
            self.answer(*(panda.identity() if self.path == WHO else (404, {})))

        def answer(self, status: int, answer: Any) -> None:
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handling) as server:
        panda.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield panda
        server.shutdown()
        thread.join()
