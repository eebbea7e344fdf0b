"""Where the values of ``$MACHINEFEATURES`` and ``$JOBFEATURES`` point. Pure.

Source: HSF-TN-2016-02, directories.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

Way = Literal["local", "http", "https"]


@dataclass(frozen=True)
class FeatureBase:
    """A directory or a section of URL space, without a slash at the end."""

    way: Way
    text: str

    @property
    def is_local(self) -> bool:
        """Whether it is a directory of this machine."""
        return self.way == "local"

    def place_of(self, key: str) -> str:
        """The path or address of a key: exactly one slash in between."""
        return f"{self.text}/{key}"


class RefusedBaseError(ValueError):
    """A value of the variable that is neither a path nor an http(s) address; it counts as not set."""


def base_of(value: str) -> FeatureBase:
    """Read the value of one of the variables.

    Raises:
        RefusedBaseError: a relative path, another scheme, an address without host or with a password in it.
    """
    text = value.strip().rstrip("/") or value.strip()[:1]
    if "\0" in text or any(character in text for character in "\r\n"):
        raise RefusedBaseError("holds control characters")
    if text.startswith("/"):
        return FeatureBase("local", text)
    for way in ("http", "https"):
        if text.startswith(f"{way}://"):
            return FeatureBase("http" if way == "http" else "https", _checked_address(text))
    raise RefusedBaseError("neither a path from the root nor an http or https address")


def _checked_address(text: str) -> str:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise RefusedBaseError(f"no usable address: {error}") from error
    if not parts.hostname or parts.username is not None or parts.query or parts.fragment:
        raise RefusedBaseError("an address is a host and a path, without account, query or fragment")
    if not text.isascii() or " " in text:
        raise RefusedBaseError("an address is ASCII without blanks")
    return text
