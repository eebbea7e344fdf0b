"""The report of the files that a job has written. Source: PanDA pilot and server, report of the output of jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from broker.json_depth import is_too_deep
from broker.pilots.model.values import not_negative, optional, text


class BadOutputReport(ValueError):
    """A report that cannot be read; ``code`` says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class WrittenFile:
    """A file that a job has written.

    Attributes:
        lfn: its name.
        guid: None when the pilot reports none.
        fsize: bytes; None when the pilot reports none.
        checksum: with the letters of its kind (``ad:`` for adler32, ``md:`` for MD5); None: none.
    """

    lfn: str
    guid: str | None = None
    fsize: int | None = None
    checksum: str | None = None


def read_output_report(data: str) -> dict[str, WrittenFile]:
    """The files by name; none where the report is empty.

    Raises:
        BadOutputReport: ``not_json``, ``too_deep``, or ``wrong_type``: no object of objects.
    """
    if not data.strip():
        return {}
    if is_too_deep(data):
        raise BadOutputReport("too_deep")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadOutputReport("not_json") from error
    if not isinstance(content, dict) or not all(isinstance(one, dict) for one in content.values()):
        raise BadOutputReport("wrong_type")
    return {name: _file(name, values) for name, values in content.items()}


def _file(lfn: str, values: Mapping[str, Any]) -> WrittenFile:
    checksum = None
    for key, letters in (("adler32", "ad"), ("md5sum", "md")):
        digest = optional(values.get(key), text(32))
        if checksum is None and digest is not None:
            checksum = f"{letters}:{digest}"
    return WrittenFile(
        lfn,
        optional(values.get("guid"), text(64)),
        optional(values.get("fsize"), not_negative),
        checksum,
    )
