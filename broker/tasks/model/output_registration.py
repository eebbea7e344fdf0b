"""Outputs of jobs as they are registered in Rucio: what of a report is usable, what differs, and how long to wait."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from broker.tasks.model.task import InputFile

#: Source: Rucio, generic schema.
_NAME = re.compile(r"[/A-Za-z0-9][/A-Za-z0-9.\-_]*")
_ADLER32, _MD5 = re.compile(r"[0-9a-f]{1,8}"), re.compile(r"[0-9a-f]{32}")
_GUID = re.compile(r"\{?[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}\}?")
_PLACE = re.compile(r"\{(\w+)\}")
PLACEHOLDERS = ("destination", "rse", "nucleus", "site", "vo", "label", "task", "user")
"""The placeholders that templates of rules may name."""


@dataclass(frozen=True)
class Problem:
    """Why a file or a dataset is not accepted: a code for machines, a sentence for people."""

    code: str
    what: str


@dataclass(frozen=True)
class OutputFile(InputFile):
    """A file that a job has written, as its pilot reported it.

    Attributes:
        fileid: its row.
        pandaid: the job.
        rse: the endpoint that the pilot was told to write to; None: unknown.
    """

    fileid: int = 0
    pandaid: int | None = None
    rse: str | None = None

    @property
    def did(self) -> tuple[str, str]:
        """Its name at Rucio."""
        return self.scope or "", self.lfn


def unusable(file: OutputFile) -> Problem | None:
    """Why a file cannot be registered in Rucio; None if it can."""
    if file.fsize is None:
        return Problem("size_unknown", f"job {file.pandaid} reported no size")
    if not file.rse:
        return Problem("endpoint_unknown", f"the queue of job {file.pandaid} has no endpoint to write to by default")
    if not _NAME.fullmatch(file.lfn):
        return Problem("name_unusable", f"Rucio takes no such name: {file.lfn[:100]!r}")
    if file.checksum is not None and _checksum(file.checksum) is None:
        return Problem("checksum_unusable", f"neither adler32 nor MD5: {file.checksum}")
    if file.guid is not None and not _GUID.fullmatch(file.guid.lower()):
        return Problem("guid_unusable", f"no guid: {file.guid[:64]!r}")
    return None


def registration_of(file: OutputFile) -> dict[str, Any]:
    """The file as Rucio's client takes it.

    >>> registration_of(OutputFile("a", "mc", 5, checksum="ad:cc737eb"))
    {'scope': 'mc', 'name': 'a', 'bytes': 5, 'adler32': '0cc737eb'}
    """
    registration: dict[str, Any] = {"scope": file.scope, "name": file.lfn, "bytes": file.fsize}
    registration |= _checksum(file.checksum) or {}
    meta = {key: value for key, value in (("guid", file.guid), ("events", file.nevents)) if value is not None}
    return registration | ({"meta": meta} if meta else {})


def _checksum(text: str | None) -> dict[str, str] | None:
    kind, _, digits = (text or "").lower().partition(":")
    if kind == "ad" and _ADLER32.fullmatch(digits):
        return {"adler32": digits.zfill(8)}
    return {"md5": digits} if kind == "md" and _MD5.fullmatch(digits) else None


def difference(file: OutputFile, metadata: Mapping[str, Any]) -> Problem | None:
    """How a file differs from the one of its name at Rucio; what one of the two does not state is no difference.

    >>> difference(OutputFile("a", "mc", 5, pandaid=2), {"bytes": 6}).what
    'mc:a has 6 bytes at Rucio, job 2 reported 5'
    """
    reported, name = registration_of(file), ":".join(file.did)
    if metadata.get("bytes") is not None and metadata["bytes"] != file.fsize:
        what = f"{name} has {metadata['bytes']} bytes at Rucio, job {file.pandaid} reported {file.fsize}"
        return Problem("size_differs", what)
    for kind in ("adler32", "md5"):
        if reported.get(kind) and metadata.get(kind) and str(metadata[kind]).lower() != reported[kind]:
            what = f"{name} has {kind} {metadata[kind]} at Rucio, job {file.pandaid} reported {reported[kind]}"
            return Problem("checksum_differs", what)
    if file.guid and metadata.get("guid") and _plain(metadata["guid"]) != _plain(file.guid):
        return Problem(
            "guid_differs", f"{name} has guid {metadata['guid']} at Rucio, job {file.pandaid} reported {file.guid}"
        )
    if file.nevents is not None and metadata.get("events") not in (None, file.nevents):
        what = f"{name} has {metadata['events']} events at Rucio, job {file.pandaid} reported {file.nevents}"
        return Problem("events_differ", what)
    return None


def _plain(guid: str) -> str:
    return re.sub(r"[{}-]", "", str(guid)).lower()


def filled(template: str, values: Mapping[str, str]) -> str:
    """A template of a rule with its placeholders filled.

    >>> filled("tier=1&site={site}", {"site": "KIT"})
    'tier=1&site=KIT'
    """
    return _PLACE.sub(lambda match: values.get(match[1], match[0]), template)


def unknown_placeholders(template: str) -> list[str]:
    """The placeholders of a template that are not known."""
    return [name for name in _PLACE.findall(template) if name not in PLACEHOLDERS]


def pause(failures: int, first_s: float, longest_s: float) -> timedelta:
    """How long to wait after this many failed tries in a row: doubled each time.

    >>> [pause(failures, 60, 900).total_seconds() for failures in (1, 2, 4, 5, 500)]
    [60.0, 120.0, 480.0, 900.0, 900.0]
    """
    return timedelta(seconds=min(longest_s, first_s * 2 ** min(failures - 1, 30)))
