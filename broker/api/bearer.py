"""Bearer tokens of issuers: checks of the signature and the claims, which identify the sender.

A bad token that no trusted issuer signed always gets the same answer; the log says which check failed, never the token.
The sender of a well-signed token is told what is wrong with it, since nobody else can have made it.
Sources: WLCG common JWT profile 1.3; SciTokens; RFC 8725 (algorithms are ours to choose, not the token's).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from joserfc import errors, jwt
from starlette.requests import HTTPConnection

from broker.access.claims import Expected, fault_of
from broker.access.policies import Identity, grants_of
from broker.api.configuration import IssuerSection
from broker.api.issuer_keys import IssuerKeys
from broker.api.local_token import BadToken, refused, token_in
from broker.api.problems import token_fault_details

MOST_REMEMBERED = 4096
_POINTERS = frozenset({"jku", "jwk", "x5u", "x5c", "crit", "b64", "enc", "zip"})
"""Header fields that name the token's own key, or change what is signed: no honest client sends them."""


@dataclass(frozen=True)
class _Seen:
    identity: Identity
    keys_of: datetime


@dataclass(frozen=True)
class _Trusted:
    section: IssuerSection
    keys: IssuerKeys


class IssuedBearer:
    """Identifies the sender of a request by the token of a trusted issuer.

    Args:
        issuers: the trusted issuers, with their keys.
        now: the time on this host (aware).
    """

    def __init__(self, issuers: Sequence[tuple[IssuerSection, IssuerKeys]], now: Callable[[], datetime]) -> None:
        self._trusted = {section.issuer: _Trusted(section, keys) for section, keys in issuers}
        self._now = now
        self._seen: OrderedDict[bytes, _Seen] = OrderedDict()

    async def __call__(self, connection: HTTPConnection) -> Identity | None:
        """Return the sender of a request; None without a token.

        Raises:
            Problem: the token is bad.
        """
        try:
            token = token_in(connection)
            return None if token is None else await self.identify(token)
        except BadToken as error:
            raise refused(error) from None

    async def identify(self, token: str) -> Identity:
        """Return the identity behind ``token``.

        Raises:
            BadToken: the token is bad.
        """
        name = hashlib.sha256(token.encode("utf-8", "replace")).digest()
        seen = self._seen.get(name)
        if seen is not None and self._still_good(seen):
            self._seen.move_to_end(name)
            return seen.identity
        header, claims = _unverified(token)
        trusted = self._trusted.get(str(claims.get("iss")))
        if trusted is None:
            raise BadToken("issuer not trusted")
        key_entry = await trusted.keys.find(_key_identifier(header, trusted.section))
        if key_entry is None:
            raise BadToken("no such key")
        key, fetched_at = key_entry
        try:
            verified = jwt.decode(token, key, algorithms=list(trusted.section.algorithms)).claims
        except (errors.JoseError, ValueError, TypeError, RecursionError) as error:
            raise BadToken(f"signature: {type(error).__name__}") from None
        identity = self._identity(verified, trusted.section)
        self._seen[name] = _Seen(identity, fetched_at)
        if len(self._seen) > MOST_REMEMBERED:
            self._seen.popitem(last=False)
        return identity

    def _still_good(self, seen: _Seen) -> bool:
        trusted = self._trusted[seen.identity.issuer]
        now = self._now()
        age_s = abs((now - seen.keys_of).total_seconds())
        current = trusted.keys.fetched_at() == seen.keys_of and age_s < trusted.section.refresh_after_s
        return current and now.timestamp() < seen.identity.expires_at_s

    def _identity(self, claims: dict[str, Any], section: IssuerSection) -> Identity:
        expected = Expected(section.issuer, section.audiences, section.identifier_required, section.longest_life_s)
        fault = fault_of(claims, expected, self._now().timestamp())
        if fault is not None:
            raise BadToken(fault, token_fault_details(fault, expected))
        username, identifier = claims.get(section.username_claim), claims.get("jti")
        return Identity(
            str(claims["sub"]),
            section.issuer,
            grants_of(section.roles, claims),
            identifier if isinstance(identifier, str) else None,
            float(claims["exp"]),
            username if isinstance(username, str) and username else None,
            section.reusable,
        )


def _unverified(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims unverified, to find the claimed issuer."""
    parts = token.split(".")
    if len(parts) != 3 or not all(parts):
        raise BadToken("not three parts")
    header, claims = (_object(part) for part in parts[:2])
    if _POINTERS.intersection(header):
        raise BadToken("the header names a key, or changes what is signed")
    return header, claims


def _object(part: str) -> dict[str, Any]:
    try:
        raw = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
        content = json.loads(raw)
    except (binascii.Error, ValueError, RecursionError):
        raise BadToken("not base64 of JSON") from None
    if not isinstance(content, dict):
        raise BadToken("no object")
    return content


def _key_identifier(header: dict[str, Any], section: IssuerSection) -> str | None:
    """Return the key identifier, which is used as a lookup name and nothing else."""
    if header.get("alg") not in section.algorithms:
        raise BadToken("algorithm")
    identifier = header.get("kid")
    if identifier is not None and not isinstance(identifier, str):
        raise BadToken("key identifier")
    return identifier
