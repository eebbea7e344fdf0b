"""Where a virtual machine learns its two variables: metadata keys of its cloud, asked for once in its life.

The answer is kept in a file, under a lock, so that processes of one machine ask once between them. An answer that a
cloned disk image brought along, from another machine, is not believed. Source: HSF-TN-2016-02, environment variables.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.errors import BrokerError
from broker.formats.model.feature_http import Fetched
from broker.formats.model.feature_keys import JOB, MACHINE, BadTextError, RefusedBaseError, base_of, text_of

MAX_DOCUMENT_BYTES = 64 * 1024
"""Of one JSON document with all the metadata of a machine."""

NAMES = (MACHINE, JOB)
Ask = Callable[[Sequence[str]], Mapping[str, Fetched]]
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class CannotKeepMetadataError(BrokerError):
    """The metadata could not be kept, so that they were not asked for: they may be asked for once only."""


@dataclass(frozen=True)
class Discovered:
    """The values of the variables, ``None`` for one that the cloud does not set; each problem as ``key:code``."""

    machinefeatures: str | None = None
    jobfeatures: str | None = None
    problems: tuple[str, ...] = ()


def machine_id(path: Path = Path("/etc/machine-id")) -> str:
    """What the operating system calls this machine, empty where it does not say."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def discover(address: str, kept_in: Path, machine: str, ask: Ask) -> Discovered:
    """The two metadata keys of this machine: those that were kept, else those that the cloud tells now.

    Args:
        address: of the metadata: a folder with one file for each key, or, where it ends with ``.json``, a document with
            the keys in its object ``meta`` (OpenStack) or at its top.
        kept_in: the file that keeps the answer; made when it is not there, with its folder.
        machine: of :func:`machine_id`.
        ask: asks for several addresses at once.

    Raises:
        CannotKeepMetadataError: the file cannot be written or locked.
    """
    try:
        kept_in.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(kept_in, _OPEN, 0o600)
    except OSError as error:
        raise CannotKeepMetadataError(
            f"cannot keep the cloud's metadata: {error.strerror}", str(kept_in), "name another file"
        ) from error
    with os.fdopen(descriptor, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # whoever holds it asks for at most 10 s
        kept = _kept(file.read(MAX_DOCUMENT_BYTES + 1), machine)
        if kept is not None:
            return kept
        found = _asked(address, ask)
        if "cloud-metadata:no-answer" not in found.problems and "cloud-metadata:refused" not in found.problems:
            file.seek(0)
            file.truncate()
            file.write(
                json.dumps({"machine": machine, MACHINE: found.machinefeatures, JOB: found.jobfeatures}).encode()
            )
        return found


def _kept(data: bytes, machine: str) -> Discovered | None:
    """What was asked for before on this machine, ``None`` when nothing was."""
    if not data:
        return None
    document = _object(data)
    values = [document.get(name, "") for name in NAMES]
    if not isinstance(document.get("machine"), str) or any(not isinstance(one, str | None) for one in values):
        return Discovered(problems=("cloud-metadata:kept-file-unusable",))
    return Discovered(values[0] or None, values[1] or None) if document["machine"] == machine else None


def _asked(address: str, ask: Ask) -> Discovered:
    try:
        base = base_of(address)
    except RefusedBaseError:
        return Discovered(problems=("cloud-metadata:refused",))
    if base.is_local:
        return Discovered(problems=("cloud-metadata:refused",))
    if base.text.endswith(".json"):
        return _of_document(ask([base.text])[base.text])
    answers = ask([base.place_of(name) for name in NAMES])
    values: dict[str, str] = {}
    problems = []
    for name in NAMES:
        answer = answers[base.place_of(name)]
        if not answer.informed:
            return Discovered(problems=("cloud-metadata:no-answer",))
        if answer.content is not None:
            try:
                values[name] = text_of(answer.content)
            except BadTextError as bad:
                problems.append(f"cloud-metadata.{name}:{bad.code}")
    return Discovered(values.get(MACHINE), values.get(JOB), tuple(problems))


def _of_document(answer: Fetched) -> Discovered:
    if not answer.informed:
        return Discovered(problems=("cloud-metadata:no-answer",))
    if not isinstance(answer.content, bytes):
        return Discovered(problems=() if answer.content is None else (f"cloud-metadata:{answer.content.code}",))
    document = _object(answer.content)
    meta = document.get("meta", document)
    if not document or not isinstance(meta, dict):
        return Discovered(problems=("cloud-metadata:not-json",))
    wrong = tuple(f"cloud-metadata.{name}:not-text" for name in NAMES if not isinstance(meta.get(name), str | None))
    found = {name: meta[name] for name in NAMES if isinstance(meta.get(name), str)}
    return Discovered(found.get(MACHINE), found.get(JOB), wrong)


def _object(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
