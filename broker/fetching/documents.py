"""Documents of feeds: parsing them from bytes, the terms on which they are fetched, and what fetching returned.

A document that cannot be parsed is refused. A fault inside a record concerns only that record: it is noted here, and
the code that maps the records skips those that :func:`unusable` reports. Among the faults are values that no database
or reader can handle.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.errors import Refused
from broker.json_depth import is_too_deep

#: A document larger than this is not read; the largest ones of a grid currently have some 30 MB.
MAX_DOCUMENT_BYTES = 100 * 2**20

_LONGEST_INTEGER = 19
_SUSPICIOUS = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


class DocumentRefused(Refused):
    """A document cannot be used; what is on record stays.

    Attributes:
        code: of the reason: ``empty``, ``html``, ``not_utf8``, ``not_json``, ``too_deep``, ``too_large``,
            ``wrong_type``, ``shrunk``, ``too_many_left_out``, or one of those of fetching.
    """

    def __init__(
        self, code: str, what: str, where: str, remedy: str = "the last good one stays; see its source"
    ) -> None:
        super().__init__(what, where, remedy)
        self.code = code


class RepeatedKeys(dict[str, Any]):
    """A JSON object with duplicate keys; the last value of each is kept.

    Attributes:
        repeated: the duplicate keys.
    """

    repeated: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Document:
    """A parsed document.

    Attributes:
        content: the JSON value.
        name: the name under which it is reported.
        suspicious: whether any record may contain a fault that :func:`unusable` detects.
    """

    content: Any
    name: str
    suspicious: bool = False

    def records(self) -> dict[str, Any]:
        """The records of an object by name.

        Raises:
            DocumentRefused: the document is not an object, or is empty.
        """
        if not isinstance(self.content, dict):
            raise DocumentRefused("wrong_type", f"an object was expected, not a {_kind(self.content)}", self.name)
        if not self.content:
            raise DocumentRefused("empty", "the document is empty", self.name)
        return self.content

    def items(self) -> list[Any]:
        """The elements of a list.

        Raises:
            DocumentRefused: the document is not a list, or is empty.
        """
        if not isinstance(self.content, list):
            raise DocumentRefused("wrong_type", f"a list was expected, not a {_kind(self.content)}", self.name)
        if not self.content:
            raise DocumentRefused("empty", "the document is empty", self.name)
        return self.content

    @property
    def repeated(self) -> frozenset[str]:
        """Duplicate keys at the top level of the document."""
        return self.content.repeated if isinstance(self.content, RepeatedKeys) else frozenset()

    def fault_of(self, record: Any) -> str:
        """The code of the fault that makes a record unusable; empty if there is none."""
        return unusable(record) if self.suspicious else ""


def parse(data: bytes, name: str, max_bytes: int = MAX_DOCUMENT_BYTES) -> Document:
    """Parse the document in ``data``.

    Raises:
        DocumentRefused: it is empty, too large, too deep, HTML, or not valid UTF-8 or JSON.
    """
    if len(data) > max_bytes:
        raise DocumentRefused("too_large", f"{len(data)} bytes, more than {max_bytes}", name)
    start = data[:200].lstrip().lower()
    if not start:
        raise DocumentRefused("empty", "the document is empty", name)
    if start.startswith(b"<"):
        raise DocumentRefused("html", "HTML or XML instead of JSON", name, "see whether the address asks for a login")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentRefused("not_utf8", f"no UTF-8 at byte {error.start}", name) from error
    if is_too_deep(text):
        raise DocumentRefused("too_deep", "it nests too deep", name)
    reader = _ValueReader()
    try:
        content = json.loads(
            text,
            parse_constant=reader.constant,
            parse_float=reader.floating,
            parse_int=reader.integer,
            object_pairs_hook=reader.pairs,
        )
    except (ValueError, RecursionError) as error:
        raise DocumentRefused("not_json", f"no JSON: {str(error)[:200]}", name) from error
    return Document(content, name, reader.has_fault or _SUSPICIOUS.search(text) is not None or "\0" in text)


class _ValueReader:
    """Parses JSON values and records whether any of them is unusable."""

    def __init__(self) -> None:
        self.has_fault = False

    def constant(self, word: str) -> float:
        self.has_fault = True
        return math.nan

    def floating(self, digits: str) -> float:
        value = float(digits)
        self.has_fault |= not math.isfinite(value)
        return value

    def integer(self, digits: str) -> int | float:
        if len(digits.lstrip("-")) <= _LONGEST_INTEGER:
            return int(digits)
        self.has_fault = True
        return math.inf

    def pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        self.has_fault = True
        names = [name for name, _ in pairs]
        repeated_keys = RepeatedKeys(members)
        repeated_keys.repeated = frozenset(name for name in names if names.count(name) > 1)
        return repeated_keys


def unusable(record: Any) -> str:
    """The code of the fault that makes a record unusable: ``duplicate_key``, ``not_finite``, ``not_text``, or empty.

    Text with NUL or half of a surrogate pair cannot be stored in a database.
    """
    if isinstance(record, str):
        return "not_text" if _NO_TEXT.search(record) else ""
    if isinstance(record, float):
        return "" if math.isfinite(record) else "not_finite"
    if isinstance(record, RepeatedKeys):
        return "duplicate_key"
    if isinstance(record, dict):
        return next((code for pair in record.items() for code in map(unusable, pair) if code), "")
    if isinstance(record, list):
        return next((code for code in map(unusable, record) if code), "")
    return ""


def _kind(value: Any) -> str:
    kinds = {dict: "object", list: "list", str: "text", bool: "boolean", type(None): "null"}
    return kinds.get(type(value), "object" if isinstance(value, dict) else "number")


#: Environment variables that name trusted certificates, as read by common tools: files first, then directories.
CA_FILE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
CA_FOLDER_VARIABLES = ("SSL_CERT_DIR", "X509_CERT_DIR")


class NotFetched(DocumentRefused):
    """A document could not be fetched.

    Its code says why: ``time_out``, ``unreachable``, ``certificate``, ``status``, ``redirect``, ``too_large``,
    ``cut_off``, ``credentials``, ``file`` or ``address``.
    """


@dataclass(frozen=True)
class Credentials:
    """Files with the credentials for a server. Each is read anew whenever it is used.

    Attributes:
        bearer_token_file: file that holds one token.
        client_certificate: PEM file, with the key unless that has a file of its own.
        client_key: PEM file with the key.
    """

    bearer_token_file: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None


@dataclass(frozen=True)
class FetchTerms:
    """Limits and credentials of fetching.

    Attributes:
        time_limit_s: limit of one attempt, from connecting to the last byte, however the server sends.
        tries: number of attempts.
        pause_s: pause before the second attempt; doubled before each further one.
        max_bytes: largest size of a document.
        credentials: sent to the requested server only.
        ca_file: trusted certificates; the system's if None.
        ca_folder: a directory of trusted certificates.
        proxies: whether the usual proxy variables are honoured.
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
    """The facilities of the process that fetching needs.

    Attributes:
        monotonic: the clock for time limits.
        jitter: returns a number in [0, 1) that spreads the attempts of many brokers.
        pause: waits for some seconds; returns early when the process is ending.
        left_s: returns the seconds left to the work that needs the documents; no attempt lasts longer.
    """

    monotonic: Callable[[], float]
    jitter: Callable[[], float]
    pause: Callable[[float], object]
    left_s: Callable[[], float] = lambda: float("inf")


@dataclass(frozen=True)
class Validators:
    """A server's validators of the version of a document, for requesting only a newer one."""

    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True)
class FetchedDocument:
    """A fetched document.

    Attributes:
        data: its bytes; None if it has not changed since the version of the validators.
        validators: validators of this version.
        tries: number of attempts it took.
    """

    data: bytes | None
    validators: Validators = Validators()
    tries: int = 1


def trusted_by(variables: Mapping[str, str]) -> tuple[Path | None, Path | None]:
    """The file and the directory with trusted certificates that the usual environment variables name."""
    files = (Path(variables[name]) for name in CA_FILE_VARIABLES if variables.get(name))
    folders = (Path(variables[name]) for name in CA_FOLDER_VARIABLES if variables.get(name))
    return next(files, None), next(folders, None)


def try_pause_s(tries: int, first_s: float, jitter: float) -> float:
    """Seconds to wait after ``tries`` attempts: between half and all of a pause that doubles with each attempt."""
    return float(first_s * 2.0 ** (tries - 1) * (0.5 + 0.5 * jitter))
