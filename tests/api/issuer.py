"""A local token issuer: publishes its keys over HTTP, and signs any claims, invalid ones included."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

AUDIENCE = "https://broker.example.org"


class Issuer:
    """Publishes keys and signs tokens.

    Attributes:
        url: its name and its address.
        fetches: number of requests for its keys.
        down: whether it answers every request with an error.
        keys_at: scheme and host of the published key address.
        token_of_device: the token after a login with a device (RFC 8628); None before it.
        codes: authorization codes, each with its challenge, redirect address and token.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.keys_at = self.url
        self.fetches = 0
        self.down = False
        self.keys = {"one": RSAKey.generate_key(2048, {"kid": "one"})}
        self.asked: list[str] = []
        self.codes: dict[str, tuple[str, str, str]] = {}
        self.token_of_device: str | None = None

    def add_key(self, name: str) -> None:
        self.keys[name] = RSAKey.generate_key(2048, {"kid": name})

    def document(self, path: str) -> dict[str, Any] | None:
        self.asked.append(path)
        if path == "/.well-known/openid-configuration":
            return {
                "issuer": self.url,
                "jwks_uri": f"{self.keys_at}/jwks",
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "device_authorization_endpoint": f"{self.url}/device",
            }
        if path == "/jwks":
            self.fetches += 1
            return {"keys": [{**key.as_dict(private=False), "use": "sig"} for key in self.keys.values()]}
        return None

    def authorize(self, address: str, token: str) -> str:
        """Log in at the address of a page; returns the address that the browser is redirected to."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert address.startswith(f"{self.url}/authorize?") and query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        code = f"code-{len(self.codes)}"
        self.codes[code] = (query["code_challenge"], query["redirect_uri"], token)
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def posted(self, path: str, body: str) -> dict[str, Any] | None:
        """The answer to a posted form, or None."""
        if path == "/device":
            address = f"{self.url}/login"
            return {"device_code": "one", "verification_uri_complete": address, "interval": 1, "expires_in": 60}
        if path == "/token" and "device_code" in body:
            return None if self.token_of_device is None else {"id_token": self.token_of_device}
        return self.exchange(body) if path == "/token" else None

    def exchange(self, body: str) -> dict[str, Any] | None:
        """The token for a code, which works once; None when anything is wrong."""
        form = {name: values[0] for name, values in parse_qs(body).items()}
        challenge, callback, token = self.codes.pop(form.get("code", ""), ("", "", ""))
        digest = _text(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        is_valid = form.get("grant_type") == "authorization_code" and form.get("redirect_uri") == callback
        return {"access_token": token, "token_type": "Bearer"} if is_valid and digest == challenge else None

    def claims(self, now_s: float, **changes: Any) -> dict[str, Any]:
        """Valid claims at an instant; a change to None removes a claim."""
        valid = {
            "iss": self.url, "sub": "ann", "aud": AUDIENCE, "iat": int(now_s), "nbf": int(now_s),
            "exp": int(now_s) + 3600, "jti": f"j{now_s}", "wlcg.ver": "1.0", "scope": "broker.read",
        }  # fmt: skip
        return {name: value for name, value in {**valid, **changes}.items() if value is not None}

    def sign(self, claims: dict[str, Any], *, key: str = "one", header: dict[str, Any] | None = None) -> str:
        fields = {"alg": "RS256", "kid": key, **(header or {})}
        protected = {name: value for name, value in fields.items() if value is not None}
        return jwt.encode(protected, claims, self.keys[key], algorithms=["RS256", "RS512"])

    def sign_with_public_key(self, claims: dict[str, Any]) -> str:
        """HMAC with the public key as the secret: a verifier that trusts the algorithm of the header accepts it."""
        secret = self.keys["one"].as_pem(private=False)
        signing_input = f"{_part({'alg': 'HS256', 'kid': 'one'})}.{_part(claims)}"
        return f"{signing_input}.{_text(hmac.digest(secret, signing_input.encode(), 'sha256'))}"

    def unsigned(self, claims: dict[str, Any]) -> str:
        return f"{_part({'alg': 'none', 'kid': 'one'})}.{_part(claims)}."


def _part(content: dict[str, Any]) -> str:
    return _text(json.dumps(content).encode())


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@contextmanager
def issuing() -> Iterator[Issuer]:
    """A running issuer."""
    holder: list[Issuer] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None if holder[0].down else holder[0].document(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer(holder[0].posted(self.path, body))

        def _answer(self, document: dict[str, Any] | None) -> None:
            body = json.dumps(document).encode()
            self.send_response(503 if holder[0].down else 404 if document is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        holder.append(Issuer(server.server_address[1]))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield holder[0]
        finally:
            server.shutdown()
            thread.join()
