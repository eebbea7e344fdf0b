"""The keys of Machine/Job Features: where they are, what they hold, and which may change while a job runs.

Each file holds one value: its text becomes a number or a word, or a code that says why it is none. Machine/Job Features
and Job-to-Machine share these rules. Source: HSF-TN-2016-02, directories and keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

_BLANKS = b" \t\r\n"
_INTEGER = re.compile(r"[0-9]{1,18}")
_SIGNED = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})?")
_WORD = re.compile(r"[!-~]{1,255}")

EMPTY = "empty"
NOT_ASCII = "not-ascii"
TOO_LONG = "too-long"
NOT_AN_INTEGER = "not-an-integer"
NOT_A_NUMBER = "not-a-number"
BAD_CHARACTERS = "bad-characters"
ZERO = "zero"


@dataclass(frozen=True)
class Unreadable:
    """A file that exists but gives no value; ``code`` says why."""

    code: str


Content: TypeAlias = bytes | Unreadable
Contents: TypeAlias = Mapping[str, Content]
"""The contents of a directory by key; a key without a file is not set."""


class BadTextError(ValueError):
    """A text that does not have the expected form; ``code`` says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def text_of(content: Content) -> str:
    """The text of a file without blanks and line ends around it.

    Raises:
        BadTextError: the file could not be read, is not ASCII, or is empty.
    """
    if isinstance(content, Unreadable):
        raise BadTextError(content.code)
    if not content.isascii():
        raise BadTextError(NOT_ASCII)
    text = content.strip(_BLANKS).decode("ascii")
    if not text:
        raise BadTextError(EMPTY)
    return text


def integer(text: str) -> int:
    """A whole number of 1 to 18 digits, without sign.

    Raises:
        BadTextError: it is none.
    """
    if not _INTEGER.fullmatch(text):
        raise BadTextError(NOT_AN_INTEGER)
    return int(text)


def signed_integer(text: str) -> int:
    """A whole number of 1 to 18 digits that may be negative.

    Raises:
        BadTextError: it is none.
    """
    if not _SIGNED.fullmatch(text):
        raise BadTextError(NOT_AN_INTEGER)
    return int(text)


def count(text: str) -> int:
    """A whole number above 0; 0 is refused, since sites write it for unknown.

    Raises:
        BadTextError: it is none.
    """
    value = integer(text)
    if value == 0:
        raise BadTextError(ZERO)
    return value


def rating(text: str) -> float:
    """A number above 0, with or without decimals; no exponent.

    Raises:
        BadTextError: it is none.
    """
    if not _DECIMAL.fullmatch(text):
        raise BadTextError(NOT_A_NUMBER)
    value = Decimal(text)
    if value == 0:
        raise BadTextError(ZERO)
    return float(value)


def word(text: str) -> str:
    """At most 255 printable ASCII characters without blanks.

    Raises:
        BadTextError: it is none.
    """
    if not _WORD.fullmatch(text):
        raise BadTextError(BAD_CHARACTERS)
    return text


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


Directory: TypeAlias = Literal["machinefeatures", "jobfeatures"]
FeatureValue: TypeAlias = int | float | str

MACHINE: Directory = "machinefeatures"
JOB: Directory = "jobfeatures"

MAX_FILE_BYTES = 4096
"""A longer file holds no value."""


@dataclass(frozen=True)
class FeatureKey:
    """One key.

    Attributes:
        name: the name of the file.
        directory: the environment variable in lower case.
        unit: the unit of the value, for people.
        parse: text to value; raises :class:`BadTextError`.
        dynamic: whether the resource provider may set, change or remove it while jobs run.
    """

    name: str
    directory: Directory
    unit: str
    parse: Callable[[str], FeatureValue]
    dynamic: bool = False


KEYS: tuple[FeatureKey, ...] = (
    FeatureKey("total_cpu", MACHINE, "processors", count),
    FeatureKey("hs06", MACHINE, "HS06 of the machine", rating),
    FeatureKey("shutdowntime", MACHINE, "UNIX s", count, dynamic=True),
    FeatureKey("grace_secs", MACHINE, "s", integer),
    FeatureKey("allocated_cpu", JOB, "processors", count),
    FeatureKey("hs06_job", JOB, "HS06 of the job's processors", rating),
    FeatureKey("shutdowntime_job", JOB, "UNIX s", count, dynamic=True),
    FeatureKey("grace_secs_job", JOB, "s", integer),
    FeatureKey("jobstart_secs", JOB, "UNIX s", count),
    FeatureKey("job_id", JOB, "-", word),
    FeatureKey("wall_limit_secs", JOB, "s", count),
    FeatureKey("cpu_limit_secs", JOB, "CPU s", count),
    FeatureKey("max_rss_bytes", JOB, "bytes", count),
    FeatureKey("max_swap_bytes", JOB, "bytes", integer),
    FeatureKey("scratch_limit_bytes", JOB, "bytes", count),
)

BY_NAME: dict[str, FeatureKey] = {key.name: key for key in KEYS}


def keys_of(directory: Directory) -> tuple[FeatureKey, ...]:
    """The keys of one of the two directories."""
    return tuple(key for key in KEYS if key.directory == directory)


LEGACY_NAMES: dict[Directory, tuple[str, ...]] = {
    MACHINE: ("log_cores", "phys_cores", "jobslots"),
    JOB: ("allocated_CPU", "mem_limit_MB", "disk_limit_GB"),
}
"""Names from before 2016 that are still in use; each stands in for today's key if that one is not set."""


def names_of(directory: Directory) -> tuple[str, ...]:
    """All names that are looked up in one of the two directories, today's first."""
    return (*(key.name for key in keys_of(directory)), *LEGACY_NAMES[directory])
