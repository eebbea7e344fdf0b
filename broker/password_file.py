"""The password of the database from a file, as containers receive secrets; needs none of the slow packages."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

from broker.errors import Refused

VARIABLE = "BROKER_DATABASE_PASSWORD_FILE"
"""The environment variable that names the file."""


def with_password(url: str, file: str | Path | None) -> str:
    """The address ``url`` with the password from ``file``; unchanged without a file.

    A line break at the end of the file is not part of the password.

    Raises:
        Refused: the file cannot be read or is empty, or the address has a password of its own.
    """
    if not file:
        return url
    parts = urlsplit(url)
    account, _, host = parts.netloc.rpartition("@")
    if ":" in account or "password" in parse_qs(parts.query):
        raise Refused(
            "the address of the database has a password, and a file with one is named too",
            VARIABLE,
            "leave the password out of the address, or unset the variable",
        )
    return parts._replace(netloc=f"{account}:{quote(_read(Path(file)), safe='')}@{host}").geturl()


def _read(file: Path) -> str:
    where = f"{VARIABLE}={file}"
    try:
        password = file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read the password of the database: {error}", where, "see whose it is") from error
    if not password:
        raise Refused("the file with the password of the database is empty", where, "write the password to it")
    return password
