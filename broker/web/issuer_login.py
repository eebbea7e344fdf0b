"""Login at an issuer: OpenID Connect, code flow with PKCE (RFC 7636, S256).

The issuer's access token is checked like every bearer token, so the page grants nothing that the API would not. The
token is not stored: the session holds the identity.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import ssl
import urllib.error
import urllib.request
from collections import OrderedDict
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.concurrency import run_in_threadpool

from broker.api.configuration import ApiConfiguration, LoginSection
from broker.api.problems import Problem

TIME_LIMIT_S = 10.0
MOST_BYTES = 1 << 20
MOST_BEGUN = 1000
_DISCOVERY = "/.well-known/openid-configuration"


class IssuerLogin:
    """Logs people in at one issuer.

    Args:
        section: ``web.login``.
        configuration: configuration with the issuer.
    """

    def __init__(self, section: LoginSection, configuration: ApiConfiguration) -> None:
        self._section = section
        self._issuer = next(issuer for issuer in configuration.issuers if issuer.issuer == section.issuer)
        self._begun: OrderedDict[str, str] = OrderedDict()

    async def begin(self, callback: str) -> tuple[str, str]:
        """Return the address to send the browser to, and the state that it must come back with."""
        endpoint = self._section.authorization_endpoint or await self._discover("authorization_endpoint")
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)
        self._begun[state] = verifier
        while len(self._begun) > MOST_BEGUN:
            self._begun.popitem(last=False)
        query = {
            "response_type": "code",
            "client_id": self._section.client_id,
            "redirect_uri": callback,
            "scope": " ".join(self._section.scopes),
            "state": state,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        return f"{endpoint}?{urlencode(query)}", state

    async def exchange(self, code: str, state: str, callback: str) -> str:
        """Exchange a code for an access token.

        Raises:
            Problem: the login was not begun here, or the issuer refuses it.
        """
        verifier = self._begun.pop(state, None)
        if verifier is None:
            raise Problem(400, "login_failed", "this log-in was not begun here", "log in again")
        endpoint = self._section.token_endpoint or await self._discover("token_endpoint")
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback,
            "client_id": self._section.client_id,
            "code_verifier": verifier,
        }
        if self._section.client_secret_file is not None:
            fields["client_secret"] = self._section.client_secret_file.read_text(encoding="utf-8").strip()
        answer = await run_in_threadpool(self._request_document, endpoint, urlencode(fields).encode())
        token = answer.get("access_token")
        if not isinstance(token, str):
            raise _login_failed()
        return token

    async def _discover(self, name: str) -> str:
        """Return an endpoint as published by the issuer, at its own host."""
        about = await run_in_threadpool(self._request_document, self._issuer.issuer.rstrip("/") + _DISCOVERY, None)
        address = about.get(name)
        issuer_url, endpoint_url = urlsplit(self._issuer.issuer), urlsplit(address if isinstance(address, str) else "")
        if (issuer_url.scheme, issuer_url.netloc) != (endpoint_url.scheme, endpoint_url.netloc):
            raise Problem(
                502, "login_failed", f"{name} is not at the host of the issuer", "state it in config/api.yaml"
            )
        return str(address)

    def _request_document(self, address: str, body: bytes | None) -> dict[str, Any]:
        request = urllib.request.Request(address, body, {"Accept": "application/json"})  # noqa: S310
        ca_file = self._issuer.ca_file
        context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
        try:
            with urllib.request.urlopen(request, timeout=TIME_LIMIT_S, context=context) as answer:  # noqa: S310
                document = json.loads(answer.read(MOST_BYTES))
        except urllib.error.HTTPError as error:
            error.close()
            raise _login_failed() from None
        except (OSError, ValueError):
            raise _login_failed() from None
        if not isinstance(document, dict):
            raise _login_failed()
        return document


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier (RFC 7636, section 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def _login_failed() -> Problem:
    return Problem(502, "login_failed", "the issuer did not log you in", "try again later")
