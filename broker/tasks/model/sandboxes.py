"""Archives that panda-client uploads for the jobs of a task to fetch: names, sizes, and who may use them. Pure.

Source: panda-server, ``api/v1/file_server_api.py``; panda-client 2.2.0, ``Client.putFile``.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from datetime import timedelta

from broker.errors import WRONG_USAGE, BrokerError, Refused

REUSE_WITHIN = timedelta(days=3)
"""Time after its last use from which an archive is not offered again, so that it does not end between two calls."""
_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_NAME = re.compile(rf"[A-Za-z]{{1,30}}\.{_UUID}\.tar(?:\.gz)?")
_IN_PARAMETERS = re.compile(r"(?:^|\s)-a\s+(\S+)")
_OF_A_BUILD = "sources."
_GZIP, _LEAST_BYTES = b"\x1f\x8b", 20


class BadSandbox(BrokerError):
    """The file is not an archive of panda-client, or is too large."""

    exit_status = WRONG_USAGE
    http_status = 422


class SandboxTaken(Refused):
    """Another file has this name; nothing is overwritten."""

    http_status = 409


@dataclass(frozen=True)
class Sandbox:
    """An uploaded archive.

    Attributes:
        name: the client's name for it. Whoever knows it may fetch the archive, so it has a UUID in it.
        size_bytes: the size of the archive as it was uploaded.
        checksum: CRC-32 of its unpacked contents, from the last bytes of the archive.
    """

    name: str
    size_bytes: int
    checksum: int


def sandbox_of(file_name: str, content: bytes, most_bytes: int) -> Sandbox:
    """Check an uploaded archive.

    Args:
        file_name: the client's name for it, perhaps with a path in front.
        content: the content of the file.
        most_bytes: the maximum size.

    Raises:
        BadSandbox: it has no usable name, is no gzip archive, is too large, or is for a build.
    """
    name = file_name.replace("\\", "/").rpartition("/")[2]
    if name.startswith(_OF_A_BUILD):
        what = f"{name[:80]} is for a build (buildSpec), and no job is run before the others here"
        raise BadSandbox(what, "the file", "submit with --noBuild: what is in the directory goes to the jobs as it is")
    if not _NAME.fullmatch(name):
        raise BadSandbox(f"{name[:80]!r} is no name of an archive", "the file", "name it jobO.UUID.tar.gz")
    if len(content) > most_bytes:
        what = f"{name} has {len(content)} bytes, and {most_bytes} are allowed"
        raise BadSandbox(what, "sandbox_bytes of config/api.yaml", "leave out large files: --excludeFile, or Rucio")
    if len(content) < _LEAST_BYTES or not content.startswith(_GZIP):
        raise BadSandbox(f"{name} is no gzip archive", "the file", "upload what panda-client packs")
    return Sandbox(name, len(content), checksum_of(content))


def checksum_of(content: bytes) -> int:
    """CRC-32 in the last eight bytes of a gzip file (RFC 1952)."""
    return int(struct.unpack("<II", content[-8:])[0])


def named_in(template: str) -> tuple[str, ...]:
    """The archives that job parameters name with ``-a``.

    >>> named_in('-j "" -a jobO.0a1b2c3d-0000-0000-0000-000000000000.tar.gz -p "x"')
    ('jobO.0a1b2c3d-0000-0000-0000-000000000000.tar.gz',)
    """
    return tuple(name for name in _IN_PARAMETERS.findall(template) if _NAME.fullmatch(name))
