"""PanDA's own functions behind HTTP: who asks, by token and origin, and the kill of jobs.

The server's ``PandaRequest`` checks the token, with keys from an issuer that runs here, and takes VO and role from the
origin; its API functions answer, and its task buffer ends the jobs. The configuration of VOs is that of the tests.
"""

from __future__ import annotations

import http.server
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT = "gridbroker"
_LOG = logging.getLogger("panda.api")
_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass(frozen=True)
class PandaServer:
    """A server that runs.

    Attributes:
        origin: its scheme, host and port, which is the issuer as well.
    """

    origin: str

    @property
    def address(self) -> str:
        """Of the API."""
        return f"{self.origin}/api"

    def token(self, *groups: str) -> str:
        """A token of a member of some groups, such as ``atlas/production``."""
        claims = {"iss": self.origin, "sub": CLIENT, "name": "grid broker", "groups": list(groups)}
        return jwt.encode(claims, _KEY, algorithm="RS256", headers={"kid": "one"})


class _Nothing:
    """In place of the closer of datasets, which would ask Rucio."""

    def __init__(self, *_: Any) -> None:
        pass

    def run(self) -> None:
        """Close nothing."""


def _configure(origin: str) -> None:
    from pandaserver.config import panda_config

    panda_config.token_authType = "oidc"  # noqa: S105 - no secret; before what reads tokens is imported
    panda_config.auth_config = {CLIENT: {"oidc_config_url": f"{origin}/.well-known/openid-configuration"}}
    panda_config.legacy_token_issuers = None
    panda_config.auth_policies = {"atlas": [("atlas", {"group": "atlas", "role": "user"})]}
    panda_config.auth_vo_dict = {"atlas": {}, "atlas.production": {}}
    panda_config.production_dns = []
    panda_config.useJEDI = panda_config.record_statuschange = True
    from pandaserver.taskbuffer import TaskBuffer as module

    module.Closer = _Nothing


def _issued(path: str, origin: str) -> dict[str, Any] | None:
    """What the issuer tells of itself."""
    if path.startswith("/.well-known"):
        return {"issuer": origin, "jwks_uri": f"{origin}/keys"}
    if path == "/keys":
        return {"keys": [json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(_KEY.public_key())) | {"kid": "one"}]}
    return None


def _answer(path: str, env: dict[str, str], body: dict[str, Any]) -> tuple[int, bytes]:
    from pandaserver.api.v1 import job_api, system_api
    from pandaserver.srvcore.panda_request import PandaRequest

    request = PandaRequest(env, _LOG)
    if not request.authenticated:
        return 403, f"ERROR : Token authentication failed. {request.message}".encode()
    functions = {"/api/v1/job/kill": job_api.kill, "/api/v1/system/get_user_attributes": system_api.get_user_attributes}
    return 200, json.dumps(functions[path](request, **body), default=str).encode()


@contextmanager
def panda_server(buffer: Any) -> Iterator[PandaServer]:
    """A server over a task buffer, while it runs."""

    class Handling(http.server.BaseHTTPRequestHandler):
        def handle_one(self, body: dict[str, Any]) -> None:
            env = {"REQUEST_METHOD": self.command, "HTTP_AUTHORIZATION": str(self.headers["Authorization"])}
            if "Origin" in self.headers:
                env["HTTP_ORIGIN"] = self.headers["Origin"]
            issued = _issued(self.path, panda.origin)
            status, data = _answer(self.path, env, body) if issued is None else (200, json.dumps(issued).encode())
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self.handle_one({})

        def do_POST(self) -> None:
            self.handle_one(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handling) as server:
        panda = PandaServer(f"http://127.0.0.1:{server.server_port}")
        _configure(panda.origin)
        from pandaserver.api.v1 import job_api

        job_api.init_task_buffer(buffer)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield panda
        server.shutdown()
        thread.join()
