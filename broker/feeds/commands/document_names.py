"""Identify the document at a file or address on the command line: by a name prefix, its address, or its content."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from urllib.parse import urlsplit

from broker.errors import WRONG_USAGE, BrokerError
from broker.feeds.model.cric.catalogue import CLOSED_READ, CLOSED_WRITE, DOCUMENTS, name_by_address, name_by_shape
from broker.feeds.model.rucio.quotas import GLOBAL, LOCAL
from broker.fetching.documents import MAX_DOCUMENT_BYTES, DocumentRefused, parse
from broker.fetching.web import path_of, read_file

RUCIO_KINDS = ("space", "replicas", "quotas")


class UnknownDocument(BrokerError):
    """It cannot be determined which document this is."""

    exit_status = WRONG_USAGE


def cric_documents(arguments: Sequence[str]) -> dict[str, str]:
    """Return the addresses and paths by the name of CRIC's document.

    Raises:
        UnknownDocument: a document cannot be identified, or two have the same name.
    """
    documents: dict[str, str] = {}
    for argument in arguments:
        name, address = _cric_document(argument)
        if name in documents:
            raise UnknownDocument(f"two documents {name}", argument, "give each once")
        documents[name] = address
    return documents


def rucio_kind(argument: str) -> tuple[str, str]:
    """Return whether a document is ``space``, ``replicas`` or ``quotas``, and its address or path.

    Raises:
        UnknownDocument: it is a file that cannot be read, or holds no JSON.
    """
    name, separator, rest = argument.partition("=")
    if separator and name in RUCIO_KINDS:
        return name, rest
    try:
        content = _read(argument)
    except DocumentRefused as error:
        hint = f"correct that, or write NAME=FILE with one of {', '.join(RUCIO_KINDS)}"
        raise UnknownDocument(f"{error.code}: {error.what}", argument[:200], hint) from error
    if isinstance(content, dict) and isinstance(content.get("datasets"), list):
        return "replicas", argument
    if isinstance(content, dict) and content and set(content) <= {LOCAL, GLOBAL}:
        return "quotas", argument
    return "space", argument


def _cric_document(argument: str) -> tuple[str, str]:
    name, separator, rest = argument.partition("=")
    if separator and name in DOCUMENTS:
        return name, rest
    stem = PurePath(urlsplit(argument).path).stem
    document = name_by_address(argument) or (stem if stem in DOCUMENTS else None) or name_by_shape(_content(argument))
    if document is None:
        _check_json_file(argument)
        known = ", ".join(DOCUMENTS)
        hint = f"write NAME=FILE with one of {known} (lists of closed endpoints: {CLOSED_WRITE}, {CLOSED_READ})"
        raise UnknownDocument("it cannot be told which document of CRIC this is", argument[:200], hint)
    return document, argument


def _check_json_file(address: str) -> None:
    """Check that a file exists and holds JSON.

    Raises:
        UnknownDocument: it does not exist, cannot be read, or holds no JSON.
    """
    path = path_of(address)
    if path is None:
        return
    if not path.is_file():
        raise UnknownDocument("there is no such file", address[:200], "correct the path")
    try:
        parse(read_file(path, MAX_DOCUMENT_BYTES).data or b"", address)
    except DocumentRefused as error:
        raise UnknownDocument("it holds no JSON", address[:200], "give a document of CRIC") from error


def _content(address: str) -> object:
    """The JSON in a file; None for a web address, or for other content, which is refused later."""
    try:
        return _read(address)
    except DocumentRefused:
        return None


def _read(address: str) -> object:
    """The JSON in a file; None for a web address.

    Raises:
        DocumentRefused: the file cannot be read, or holds no JSON.
    """
    path = path_of(address)
    return None if path is None else parse(read_file(path, MAX_DOCUMENT_BYTES).data or b"", address).content
