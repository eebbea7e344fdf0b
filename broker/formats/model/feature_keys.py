"""The keys of Machine/Job Features: where they stand, what they hold, and which may change while a job runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from broker.formats.model import plain_values

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
        name: of the file.
        directory: the environment variable in lower case.
        unit: of the value, for people.
        parse: text to value; raises :class:`plain_values.BadTextError`.
        dynamic: whether the resource provider may set, change or remove it while jobs run.
    """

    name: str
    directory: Directory
    unit: str
    parse: Callable[[str], FeatureValue]
    dynamic: bool = False


KEYS: tuple[FeatureKey, ...] = (
    FeatureKey("total_cpu", MACHINE, "processors", plain_values.count),
    FeatureKey("hs06", MACHINE, "HS06 of the machine", plain_values.rating),
    FeatureKey("shutdowntime", MACHINE, "UNIX s", plain_values.count, dynamic=True),
    FeatureKey("grace_secs", MACHINE, "s", plain_values.integer),
    FeatureKey("allocated_cpu", JOB, "processors", plain_values.count),
    FeatureKey("hs06_job", JOB, "HS06 of the job's processors", plain_values.rating),
    FeatureKey("shutdowntime_job", JOB, "UNIX s", plain_values.count, dynamic=True),
    FeatureKey("grace_secs_job", JOB, "s", plain_values.integer),
    FeatureKey("jobstart_secs", JOB, "UNIX s", plain_values.count),
    FeatureKey("job_id", JOB, "-", plain_values.word),
    FeatureKey("wall_limit_secs", JOB, "s", plain_values.count),
    FeatureKey("cpu_limit_secs", JOB, "CPU s", plain_values.count),
    FeatureKey("max_rss_bytes", JOB, "bytes", plain_values.count),
    FeatureKey("max_swap_bytes", JOB, "bytes", plain_values.integer),
    FeatureKey("scratch_limit_bytes", JOB, "bytes", plain_values.count),
)

BY_NAME: dict[str, FeatureKey] = {key.name: key for key in KEYS}


def keys_of(directory: Directory) -> tuple[FeatureKey, ...]:
    """The keys of one of the two directories."""
    return tuple(key for key in KEYS if key.directory == directory)


LEGACY_NAMES: dict[Directory, tuple[str, ...]] = {
    MACHINE: ("log_cores", "phys_cores", "jobslots"),
    JOB: ("allocated_CPU", "mem_limit_MB", "disk_limit_GB"),
}
"""Names from before 2016 that are still met; each stands in for today's key where that one is not set."""


def names_of(directory: Directory) -> tuple[str, ...]:
    """All names that are looked for in one of the two directories, today's first."""
    return (*(key.name for key in keys_of(directory)), *LEGACY_NAMES[directory])
