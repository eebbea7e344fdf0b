"""A document of a feed: bytes to JSON, with everything in it that no database and no reader can take found out.

A document that is none at all is refused. A fault inside one record concerns that record only: it is marked here, and
whoever maps the records leaves out those that :func:`unusable` names.

On which terms documents are fetched, and what fetching one gave.
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

#: A document larger than this is not read; the largest of a grid today have some 30 MB.
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
    """A JSON object in which keys stand twice; the last value of each is kept.

    Attributes:
        repeated: those keys.
    """

    repeated: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Document:
    """A parsed document.

    Attributes:
        content: the JSON value.
        name: under which it is reported.
        suspicious: whether any record may hold something that :func:`unusable` finds.
    """

    content: Any
    name: str
    suspicious: bool = False

    def records(self) -> dict[str, Any]:
        """The records of an object by name.

        Raises:
            DocumentRefused: the document is no object, or there is nothing in it.
        """
        if not isinstance(self.content, dict):
            raise DocumentRefused("wrong_type", f"an object was expected, not a {_kind(self.content)}", self.name)
        if not self.content:
            raise DocumentRefused("empty", "the document is empty", self.name)
        return self.content

    def items(self) -> list[Any]:
        """The elements of a list.

        Raises:
            DocumentRefused: the document is no list, or there is nothing in it.
        """
        if not isinstance(self.content, list):
            raise DocumentRefused("wrong_type", f"a list was expected, not a {_kind(self.content)}", self.name)
        if not self.content:
            raise DocumentRefused("empty", "the document is empty", self.name)
        return self.content

    @property
    def repeated(self) -> frozenset[str]:
        """Names that stand twice at the top of the document."""
        return self.content.repeated if isinstance(self.content, RepeatedKeys) else frozenset()

    def fault_of(self, record: Any) -> str:
        """The code of what makes a record unusable, empty when nothing does."""
        return unusable(record) if self.suspicious else ""


def parse(data: bytes, name: str, max_bytes: int = MAX_DOCUMENT_BYTES) -> Document:
    """The document in ``data``.

    Raises:
        DocumentRefused: it is too large, too deep, no UTF-8, HTML, or no JSON.
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
    marks = _Marks()
    try:
        content = json.loads(
            text,
            parse_constant=marks.constant,
            parse_float=marks.floating,
            parse_int=marks.integer,
            object_pairs_hook=marks.pairs,
        )
    except (ValueError, RecursionError) as error:
        raise DocumentRefused("not_json", f"no JSON: {str(error)[:200]}", name) from error
    return Document(content, name, marks.found or _SUSPICIOUS.search(text) is not None or "\0" in text)


class _Marks:
    """Reads values and notes whether there was one that is no good."""

    def __init__(self) -> None:
        self.found = False

    def constant(self, word: str) -> float:
        self.found = True
        return math.nan

    def floating(self, digits: str) -> float:
        value = float(digits)
        self.found |= not math.isfinite(value)
        return value

    def integer(self, digits: str) -> int | float:
        if len(digits.lstrip("-")) <= _LONGEST_INTEGER:
            return int(digits)
        self.found = True
        return math.inf

    def pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        self.found = True
        names = [name for name, _ in pairs]
        marked = RepeatedKeys(found)
        marked.repeated = frozenset(name for name in names if names.count(name) > 1)
        return marked


def unusable(record: Any) -> str:
    """The code of what makes a record unusable: ``duplicate_key``, ``not_finite`` or ``not_text``; empty for nothing.

    Text with NUL or half of a surrogate pair is none that a database takes.
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
