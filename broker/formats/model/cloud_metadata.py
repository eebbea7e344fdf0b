"""Where a virtual machine learns its two variables: metadata keys of its cloud, requested once in its life.

The answer is kept in a file, under a lock, so that all processes of a machine together ask once. An answer from another
machine, which a cloned disk image brought along, is not used. Source: HSF-TN-2016-02, environment variables.
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
from broker.formats.model.feature_http import KeyResponse
from broker.formats.model.feature_keys import JOB, MACHINE, BadTextError, RefusedBaseError, base_of, text_of

MAX_DOCUMENT_BYTES = 64 * 1024
"""The size limit of one JSON document with all the metadata of a machine."""

NAMES = (MACHINE, JOB)
Ask = Callable[[Sequence[str]], Mapping[str, KeyResponse]]
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class CannotKeepMetadataError(BrokerError):
    """The metadata could not be stored, so they were not requested: they may be requested only once."""


@dataclass(frozen=True)
class Discovered:
    """The values of the variables, ``None`` for one that the cloud does not set; each problem as ``key:code``."""

    machinefeatures: str | None = None
    jobfeatures: str | None = None
    problems: tuple[str, ...] = ()


def machine_id(path: Path = Path("/etc/machine-id")) -> str:
    """The operating system's identifier of this machine, empty if it has none."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def discover(address: str, cache_file: Path, machine: str, ask: Ask) -> Discovered:
    """The two metadata keys of this machine: the stored ones, else those that the cloud gives now.

    Args:
        address: the address of the metadata: a folder with one file for each key, or, if it ends with ``.json``, a
            document with the keys in its object ``meta`` (OpenStack) or at its top.
        cache_file: the file that stores the answer; created with its folder if it does not exist.
        machine: the identifier from :func:`machine_id`.
        ask: requests several addresses at once.

    Raises:
        CannotKeepMetadataError: the file cannot be written or locked.
    """
    try:
        cache_file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(cache_file, _OPEN, 0o600)
    except OSError as error:
        raise CannotKeepMetadataError(
            f"cannot keep the cloud's metadata: {error.strerror}", str(cache_file), "name another file"
        ) from error
    with os.fdopen(descriptor, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # its holder waits for the cloud for at most 10 s
        stored = _stored_answer(file.read(MAX_DOCUMENT_BYTES + 1), machine)
        if stored is not None:
            return stored
        discovered = _request(address, ask)
        if (
            "cloud-metadata:no-answer" not in discovered.problems
            and "cloud-metadata:refused" not in discovered.problems
        ):
            file.seek(0)
            file.truncate()
            file.write(
                json.dumps(
                    {"machine": machine, MACHINE: discovered.machinefeatures, JOB: discovered.jobfeatures}
                ).encode()
            )
        return discovered


def _stored_answer(data: bytes, machine: str) -> Discovered | None:
    """The answer that was stored on this machine, ``None`` without one."""
    if not data:
        return None
    document = _object(data)
    values = [document.get(name, "") for name in NAMES]
    if not isinstance(document.get("machine"), str) or any(not isinstance(value, str | None) for value in values):
        return Discovered(problems=("cloud-metadata:kept-file-unusable",))
    return Discovered(values[0] or None, values[1] or None) if document["machine"] == machine else None


def _request(address: str, ask: Ask) -> Discovered:
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


def _of_document(answer: KeyResponse) -> Discovered:
    if not answer.informed:
        return Discovered(problems=("cloud-metadata:no-answer",))
    if not isinstance(answer.content, bytes):
        return Discovered(problems=() if answer.content is None else (f"cloud-metadata:{answer.content.code}",))
    document = _object(answer.content)
    meta = document.get("meta", document)
    if not document or not isinstance(meta, dict):
        return Discovered(problems=("cloud-metadata:not-json",))
    wrong = tuple(f"cloud-metadata.{name}:not-text" for name in NAMES if not isinstance(meta.get(name), str | None))
    values = {name: meta[name] for name in NAMES if isinstance(meta.get(name), str)}
    return Discovered(values.get(MACHINE), values.get(JOB), wrong)


def _object(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
