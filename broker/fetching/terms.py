"""On which terms documents are fetched, and what fetching one gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from broker.fetching.documents import MAX_DOCUMENT_BYTES, DocumentRefused

#: Variables that name certificates to trust, as the usual tools read them: files first, then directories.
CA_FILE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
CA_FOLDER_VARIABLES = ("SSL_CERT_DIR", "X509_CERT_DIR")


class NotFetched(DocumentRefused):
    """A document could not be got.

    Its code says why: ``time_out``, ``unreachable``, ``certificate``, ``status``, ``redirect``, ``too_large``,
    ``cut_off``, ``credentials``, ``file`` or ``address``.
    """


@dataclass(frozen=True)
class Credentials:
    """Files with what a server wants to see. Each is read anew whenever it is used.

    Attributes:
        bearer_token_file: whose first line is a token.
        client_certificate: PEM, with the key unless that has a file of its own.
        client_key: PEM.
    """

    bearer_token_file: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None


@dataclass(frozen=True)
class FetchTerms:
    """Limits and means of fetching.

    Attributes:
        time_limit_s: of one try, from connecting to the last byte, however the server sends.
        tries: how many there are.
        pause_s: before the second try; doubled before each further one.
        max_bytes: of a document.
        credentials: shown to the server that is asked, and to no other.
        ca_file: certificates to trust; the system's without it.
        ca_folder: a directory of them.
        proxies: whether the usual variables for proxies are followed.
    """

    time_limit_s: float = 30.0
    tries: int = 3
    pause_s: float = 1.0
    max_bytes: int = MAX_DOCUMENT_BYTES
    credentials: Credentials = Credentials()
    ca_file: Path | None = None
    ca_folder: Path | None = None
    proxies: bool = True


@dataclass(frozen=True)
class Surroundings:
    """What fetching needs of the process.

    Attributes:
        monotonic: the clock for time limits.
        jitter: a number in [0, 1) that spreads tries of many brokers.
        pause: waits for some seconds; returns early when the process is ending.
        left_s: seconds that the work has left for which documents are fetched; no try lasts longer.
    """

    monotonic: Callable[[], float]
    jitter: Callable[[], float]
    pause: Callable[[float], object]
    left_s: Callable[[], float] = lambda: float("inf")


@dataclass(frozen=True)
class Validators:
    """What a server said of the version of a document, to ask for a newer one only."""

    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True)
class Fetched:
    """A document as it came.

    Attributes:
        data: its bytes; None when it has not changed since the version of the validators.
        validators: of this version.
        tries: how many it took.
    """

    data: bytes | None
    validators: Validators = Validators()
    tries: int = 1


def trusted_by(variables: Mapping[str, str]) -> tuple[Path | None, Path | None]:
    """The file and the directory with certificates to trust that the usual variables name."""
    files = (Path(variables[name]) for name in CA_FILE_VARIABLES if variables.get(name))
    folders = (Path(variables[name]) for name in CA_FOLDER_VARIABLES if variables.get(name))
    return next(files, None), next(folders, None)


def try_pause_s(tries: int, first_s: float, jitter: float) -> float:
    """Seconds to wait after ``tries`` tries: between half and the whole of a time that doubles."""
    return float(first_s * 2.0 ** (tries - 1) * (0.5 + 0.5 * jitter))
