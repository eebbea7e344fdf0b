"""Obtain a feed's documents: the new version of each if it is good, else the last good one and the reason.

:class:`FeedOptions` are the options of every document feed: limits, credential files, and how many rows may be missing
or unusable.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from agents.service.base import AgentOptions, CycleContext
from broker.feeds.model.rows import check_shrunk
from broker.fetching.documents import (
    Credentials,
    Document,
    DocumentRefused,
    FetchedDocument,
    FetchTerms,
    NotFetched,
    Surroundings,
    Validators,
    parse,
    trusted_by,
)
from broker.fetching.web import fetch, shown
from broker.store.snapshots.feed_documents import StoredDocument, stored_documents

_MIB = 2**20
USE_OF_BUDGET = 0.7
"""Share of the cycle's time after which requests stop: data received by then is still mapped and written."""


class FeedOptions(AgentOptions):
    """How documents are fetched and what is accepted.

    Attributes:
        time_limit_s: of one try.
        tries: of a document in one cycle.
        max_document_mib: a larger one is refused.
        max_shrink: share of the records, and of the rows of a table, that may be gone since the last good version.
        max_left_out: share of the records that may be unusable.
        bearer_token_file: file with a token for the server; read anew at each use.
        client_certificate: PEM file for the server, with its key unless ``client_key`` is set; read anew at each use.
        client_key: PEM file.
        ca_file: certificates to trust in place of the system's; else SSL_CERT_FILE and the like are followed.
        ca_folder: a directory of them; else SSL_CERT_DIR or X509_CERT_DIR.
    """

    time_limit_s: float = Field(default=30.0, gt=0, le=600)
    tries: int = Field(default=3, ge=1, le=10)
    max_document_mib: float = Field(default=100.0, gt=0, le=1000)
    max_shrink: float = Field(default=0.5, ge=0, le=1)
    max_left_out: float = Field(default=0.2, ge=0, le=1)
    bearer_token_file: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None
    ca_file: Path | None = None
    ca_folder: Path | None = None

    @property
    def max_bytes(self) -> int:
        """Size limit of a document, in bytes."""
        return round(self.max_document_mib * _MIB)

    def terms(self) -> FetchTerms:
        """The terms of fetching; without options, the environment names the certificate authorities."""
        ca_file, ca_folder = (self.ca_file, self.ca_folder)
        if ca_file is None and ca_folder is None:
            ca_file, ca_folder = trusted_by(os.environ)
        return FetchTerms(
            time_limit_s=self.time_limit_s,
            tries=self.tries,
            max_bytes=self.max_bytes,
            credentials=Credentials(self.bearer_token_file, self.client_certificate, self.client_key),
            ca_file=ca_file,
            ca_folder=ca_folder,
        )


def surroundings_of(context: CycleContext, jitter: float) -> Surroundings:
    """The clock of the cycle, pauses that end with the service, and the cycle's time left for requests."""
    reserved_s = (1 - USE_OF_BUDGET) * context.budget_s
    return Surroundings(
        monotonic=context.monotonic,
        jitter=lambda: jitter,
        pause=context.ending.wait,
        left_s=lambda: context.left_s - reserved_s,
    )


_CONCURRENT_FETCHES = 4


@dataclass(frozen=True)
class DocumentResult:
    """The outcome for one document.

    Attributes:
        name: of the document.
        source: its address.
        document: the version to use: the new one, or the last good one; None when there is neither.
        good: the new good version, to be stored; None when it was refused or not requested.
        refused: why there is no new version.
        unchanged: whether it equals the stored version.
        tries: number of attempts.
    """

    name: str
    source: str = ""
    document: Document | None = None
    good: StoredDocument | None = None
    refused: DocumentRefused | None = None
    unchanged: bool = False
    tries: int = 0

    def output(self) -> dict[str, Any]:
        """Return the outcome as an object for logs and programs."""
        code = "" if self.refused is None else self.refused.code
        outcome = "refused" if code else "unchanged" if self.unchanged else "good" if self.good else "kept"
        return {
            "document": self.name,
            "source": self.source,
            "outcome": outcome,
            "code": code,
            "detail": "" if self.refused is None else self.refused.what,
            "records": None if self.good is None else self.good.records,
            "tries": self.tries,
        }


def obtain(
    context: CycleContext,
    feed: str,
    wanted: Mapping[str, str],
    options: FeedOptions,
    check: Callable[[Document], int],
    *,
    allow_shrink: bool = False,
) -> dict[str, DocumentResult]:
    """Return the documents of a feed by name: those ``wanted``, and the last good versions of others.

    Args:
        context: of the cycle.
        feed: its name.
        wanted: address by name.
        options: limits and credentials.
        check: returns the number of records of a document; raises :class:`DocumentRefused` if its shape is wrong.
        allow_shrink: accept documents that are much smaller than the last good ones.
    """
    with context.database.read_snapshot() as connection:
        stored = stored_documents(connection, feed)
    fetcher = _Fetcher(context, options, check, 1.0 if allow_shrink else options.max_shrink)
    with ThreadPoolExecutor(min(_CONCURRENT_FETCHES, max(1, len(wanted)))) as pool:
        obtained = pool.map(lambda name: fetcher.obtain(name, wanted[name], stored.get(name)), wanted)
    others = {
        name: DocumentResult(name, last.source, _last_good(last)) for name, last in stored.items() if name not in wanted
    }
    return others | {document.name: document for document in obtained}


class _Fetcher:
    """Obtains single documents on the terms of a cycle."""

    def __init__(
        self, context: CycleContext, options: FeedOptions, check: Callable[[Document], int], max_shrink: float
    ) -> None:
        self._terms, self._check, self._max_shrink = options.terms(), check, max_shrink
        self._surroundings = surroundings_of(context, random.Random(context.seed).random())  # noqa: S311 - no secret

    def obtain(self, name: str, address: str, stored: StoredDocument | None) -> DocumentResult:
        source = shown(address)
        try:
            fetched = self._fetch(address, source, stored)
            if fetched.data is None and stored is not None and stored.body is not None:
                return DocumentResult(name, source, _last_good(stored), stored, None, True, fetched.tries)
            document = parse(fetched.data or b"", name, self._terms.max_bytes)
            records = self._check(document)
            check_shrunk(name, records, None if stored is None else stored.records, self._max_shrink)
        except DocumentRefused as fault:
            last = None if stored is None else _last_good(stored)
            return DocumentResult(name, source, last, refused=_of_document(name, fault))
        good = StoredDocument(name, source, records, _of_address(address, fetched.validators), fetched.data)
        unchanged = stored is not None and stored.body == fetched.data
        return DocumentResult(name, source, document, good, None, unchanged, fetched.tries)

    def _fetch(self, address: str, source: str, stored: StoredDocument | None) -> FetchedDocument:
        same_source = stored is not None and stored.body is not None and stored.source == source
        validators = _of_address(address, stored.validators) if stored is not None and same_source else Validators()
        fetched = fetch(address, self._terms, self._surroundings, validators)
        if fetched.data is None and not same_source:
            raise NotFetched("status", "the server says that nothing has changed, but nothing is on record", source)
        return fetched


def _of_document(name: str, fault: DocumentRefused) -> DocumentRefused:
    """The fault with the name of the document: addresses of several documents may differ in their query only."""
    if not isinstance(fault, NotFetched):
        return fault
    return NotFetched(fault.code, fault.what, f"{name} at {fault.where}", fault.remedy)


def _of_address(address: str, validators: Validators) -> Validators:
    """What tells versions of a document apart: only the ETag where there is a query, which is not kept."""
    return replace(validators, last_modified=None) if urlsplit(address).query else validators


def _last_good(stored: StoredDocument) -> Document | None:
    return None if stored.body is None else parse(stored.body, stored.name)
