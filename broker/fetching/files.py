"""Documents in local files, named by a path or a ``file:`` address."""

from __future__ import annotations

import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

from broker.fetching.terms import Fetched, NotFetched


def path_of(address: str) -> Path | None:
    """The path that an address names; None when it is that of a web server.

    Raises:
        NotFetched: it is an address of another kind.
    """
    parts = urlsplit(address)
    if parts.scheme in ("http", "https"):
        return None
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise NotFetched("address", "a file of another host", address, "give a path, or an http or https address")
        return Path(unquote(parts.path))
    if "://" in address:
        raise NotFetched("address", f"{parts.scheme}: is not read", address, "give a path, or an http or https address")
    return Path(address)


def read_file(path: Path, max_bytes: int) -> Fetched:
    """The content of a regular file of at most ``max_bytes``.

    Raises:
        NotFetched: there is none, or it is larger.
    """
    try:
        with path.open("rb") as stream:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise NotFetched("file", "not a regular file", str(path), "name another")
            data = stream.read(max_bytes + 1) if found.st_size <= max_bytes else b""
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise NotFetched(
            "file", f"cannot be read: {reason}", str(path), "correct the path or its permissions"
        ) from error
    if found.st_size > max_bytes or len(data) > max_bytes:
        raise NotFetched("too_large", f"{found.st_size} bytes, more than {max_bytes}", str(path), "see what it holds")
    return Fetched(data)
