"""Options that all feeds of documents have: limits, credentials by file, and how much may be gone or unusable."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field

from agents.service.base import AgentOptions, CycleContext
from broker.fetching.terms import Credentials, FetchTerms, Surroundings, trusted_by

_MIB = 2**20
USE_OF_BUDGET = 0.7
"""Part of the cycle's time after which nothing more is asked: what came is still mapped and written."""


class FeedOptions(AgentOptions):
    """How documents are fetched and what is accepted.

    Attributes:
        time_limit_s: of one try.
        tries: of a document in one cycle.
        max_document_mib: a larger one is refused.
        max_shrink: share of the records, and of the rows of a table, that may be gone since the last good version.
        max_left_out: share of the records that may be unusable.
        bearer_token_file: file with a token for the server; read anew at each use.
        client_certificate: PEM file for the server, with its key or beside ``client_key``; read anew at each use.
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
        """Bytes of a document."""
        return round(self.max_document_mib * _MIB)

    def terms(self) -> FetchTerms:
        """The terms of fetching, with the authorities that the environment names."""
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
    """The clock of the cycle, pauses that end when the service does, and the part of its time that is for asking."""
    kept_s = (1 - USE_OF_BUDGET) * context.budget_s
    return Surroundings(
        monotonic=context.monotonic,
        jitter=lambda: jitter,
        pause=context.ending.wait,
        left_s=lambda: context.left_s - kept_s,
    )
