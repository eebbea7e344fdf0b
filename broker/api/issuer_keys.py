"""The public keys of one issuer: fetched from that issuer only, one fetch at a time, and kept while it is down.

Source: WLCG common JWT profile 1.3, caching of keys: refreshed every 6 h, used for 1 to 4 days at most. A key that the
issuer no longer publishes is dropped at the next refresh.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from joserfc import errors
from joserfc.jwk import ECKey, RSAKey, import_key
from starlette.concurrency import run_in_threadpool

from broker.api.configuration import IssuerSection
from broker.errors import BrokerError
from broker.fetching.documents import FetchTerms, Surroundings
from broker.fetching.web import fetch
from broker.store import http_requests
from broker.store.connection.database import Database
from broker.store.connection.transient import TRANSIENT_ERRORS

_log = logging.getLogger(__name__)

PublicKey = RSAKey | ECKey
TRY_AGAIN_AFTER_S = 60.0
"""Minimum time between two fetches, whoever asks: a client with unknown key identifiers causes no traffic."""
TIME_LIMIT_S = 5.0
MOST_BYTES = 256 << 10
MOST_KEYS = 50
_SMALLEST_RSA_BITS = 2048
_NOT_READ: tuple[type[Exception], ...] = (ValueError, *TRANSIENT_ERRORS)
_DISCOVERY = "/.well-known/openid-configuration"


@dataclass(frozen=True)
class KeySet:
    """Keys by identifier, as published at ``fetched_at``."""

    fetched_at: datetime
    keys: dict[str, PublicKey]

    def find(self, identifier: str | None) -> PublicKey | None:
        """Return the key with an identifier; without an identifier, the only key there is."""
        if identifier is None:
            return next(iter(self.keys.values())) if len(self.keys) == 1 else None
        return self.keys.get(identifier)


class IssuerKeys:
    """The keys of one issuer.

    Args:
        issuer: its section of ``config/api.yaml``.
        database: where the keys are stored for other processes.
        now: the time on this host (aware).
        steady_s: a clock that never goes back.
    """

    def __init__(
        self, issuer: IssuerSection, database: Database, now: Callable[[], datetime], steady_s: Callable[[], float]
    ) -> None:
        self._issuer, self._database, self._now, self._steady_s = issuer, database, now, steady_s
        self._set: KeySet | None = None
        self._tried_s: float | None = None
        self._fetching = asyncio.Lock()

    async def find(self, identifier: str | None) -> tuple[PublicKey, datetime] | None:
        """Return the key with an identifier and when its set was fetched; None if there is no valid one."""
        if self._set is None or self._age_s(self._set) >= self._issuer.refresh_after_s:
            await self._refresh(None if self._set is None else self._set.find(identifier))
        match = None if self._set is None else self._set.find(identifier)
        if match is None:
            await self._refresh(None)
        current = self._set
        if current is None or self._age_s(current) >= self._issuer.expire_after_s:
            return None
        key = current.find(identifier)
        return None if key is None else (key, current.fetched_at)

    def fetched_at(self) -> datetime | None:
        """Return when the keys in use were fetched."""
        return None if self._set is None else self._set.fetched_at

    def _age_s(self, keys: KeySet) -> float:
        return abs((self._now() - keys.fetched_at).total_seconds())

    async def _refresh(self, usable: PublicKey | None) -> None:
        """Fetch the keys unless just tried; a caller with a usable key does not wait for another's fetch."""
        if usable is not None and self._fetching.locked():
            return
        start_s = self._steady_s()
        async with self._fetching:
            if self._tried_s is not None and start_s - self._tried_s < TRY_AGAIN_AFTER_S:
                return
            self._tried_s = self._steady_s()
            keys = await run_in_threadpool(self._fetch_keys)
            if keys is not None:
                self._set = keys

    def _fetch_keys(self) -> KeySet | None:
        """Return the keys of the issuer; if it does not answer, those stored by some process."""
        try:
            document = _document(self._issuer, self._jwks_uri())
            keys = usable_keys(document)
        except (BrokerError, ValueError) as error:
            fields = {"issuer": self._issuer.issuer, "error": str(error)}
            _log.warning("keys of the issuer not fetched", extra={"fields": fields})
            return self._stored_keys()
        fetched_at = self._now()
        try:
            with self._database.begin() as connection:
                http_requests.keep_keys(connection, self._issuer.issuer, fetched_at, document)
        except TRANSIENT_ERRORS as error:
            _log.warning("keys of the issuer not kept", extra={"fields": {"error": str(error)}})
        return KeySet(fetched_at, keys)

    def _stored_keys(self) -> KeySet | None:
        try:
            with self._database.begin() as connection:
                stored = http_requests.stored_keys(connection, self._issuer.issuer)
            newer = stored is not None and (self._set is None or stored[0] > self._set.fetched_at)
            return KeySet(stored[0], usable_keys(stored[1])) if stored is not None and newer else None
        except _NOT_READ as error:
            _log.warning("kept keys of the issuer not read", extra={"fields": {"error": str(error)}})
            return None

    def _jwks_uri(self) -> str:
        """Return the address of the keys: as configured, else as the issuer publishes it, on its own host.

        Raises:
            ValueError: the issuer names another host, or none.
        """
        if self._issuer.jwks_uri is not None:
            return self._issuer.jwks_uri
        about = _document(self._issuer, self._issuer.issuer.rstrip("/") + _DISCOVERY)
        address = about.get("jwks_uri")
        issuer_url, keys_url = urlsplit(self._issuer.issuer), urlsplit(address if isinstance(address, str) else "")
        if (issuer_url.scheme, issuer_url.netloc) != (keys_url.scheme, keys_url.netloc):
            raise ValueError("jwks_uri is not at the host of the issuer; state it as jwks_uri in config/api.yaml")
        return str(address)


def _document(issuer: IssuerSection, address: str) -> dict[str, Any]:
    terms = FetchTerms(time_limit_s=TIME_LIMIT_S, tries=1, max_bytes=MOST_BYTES, ca_file=issuer.ca_file)
    pause = threading.Event()
    fetched = fetch(address, terms, Surroundings(time.monotonic, random.random, pause.wait))
    document = json.loads(fetched.data or b"")
    if not isinstance(document, dict):
        raise ValueError(f"{address} is no JSON object")
    return document


def usable_keys(document: object) -> dict[str, PublicKey]:
    """Return the keys of a JWKS document that can check signatures; unreadable keys are dropped.

    Raises:
        ValueError: this is not a JWKS document, or it holds no such key.
    """
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list) or len(entries) > MOST_KEYS:
        raise ValueError("no JWKS document")
    keys: dict[str, PublicKey] = {}
    for entry in entries:
        key = _key(entry)
        if key is not None:
            keys[str(entry.get("kid", ""))] = key
    if not keys:
        raise ValueError("the JWKS document holds no key for signatures")
    return keys


def _key(entry: Any) -> PublicKey | None:
    if not isinstance(entry, dict) or entry.get("kty") not in ("RSA", "EC") or entry.get("use", "sig") != "sig":
        return None
    public = {name: value for name, value in entry.items() if name in ("kty", "n", "e", "crv", "x", "y")}
    try:
        key = import_key(public)
        if isinstance(key, RSAKey):
            return key if key.public_key.key_size >= _SMALLEST_RSA_BITS else None
        return key if isinstance(key, ECKey) else None
    except (errors.JoseError, ValueError, TypeError, KeyError):
        return None
