"""How the files of an input dataset are used, read from its name, type and attributes.

Source: PanDA data model, jedi_datasets; ATLAS production brokerage, input chunks.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

PSEUDO_NAMES = frozenset({"pseudo_dataset", "seq_number"})
PSEUDO_TYPES = frozenset({"pseudo_input", "pp_input"})

_COUNTED = re.compile(r"^(np|er|ratio|eventRatio|nFilesPerJob)=(\d+(?:\.\d+)?)$")
_NAMES = {"eventRatio": "er", "nFilesPerJob": "np", "reusable": "ru", "pseudo": "ps"}


@dataclass(frozen=True)
class DatasetUse:
    """How the files of a secondary dataset go with the master's.

    ``files_per_job`` and ``event_ratio`` are ``None`` when the attributes do not set them; ``ratio`` is secondary files
    per master file.
    """

    nosplit: bool = False
    repeat: bool = False
    reusable: bool = False
    pseudo: bool = False
    files_per_job: int | None = None
    event_ratio: float | None = None
    ratio: float = 1.0
    malformed: tuple[str, ...] = ()

    @property
    def splits_by_ramcount(self) -> bool:
        """Whether only files of the chunk's own ramcount are used."""
        return not ((self.nosplit and self.repeat) or self.reusable)


def parse_attributes(attributes: str | None, name: str | None, type_: str | None) -> DatasetUse:
    """Read the attributes of a dataset (comma separated words and ``key=number``)."""
    flags: set[str] = set()
    counted: dict[str, float] = {}
    malformed: list[str] = []
    for piece in (attributes or "").split(","):
        word = piece.strip()
        match = _COUNTED.match(word)
        if match is not None:
            counted.setdefault(_NAMES.get(match.group(1), match.group(1)), float(match.group(2)))
        elif "=" in word and word.split("=")[0] in {"np", "er", "ratio", "eventRatio", "nFilesPerJob"}:
            malformed.append(word[:40])
        elif word:
            flags.add(_NAMES.get(word, word))
    per_job = int(counted["np"]) if counted.get("np", 0.0) >= 1 else None
    if per_job is None and name_without_scope(name) == "seq_number":
        per_job = 1
    ratio = counted.get("ratio", 1.0)
    return DatasetUse(
        nosplit="nosplit" in flags,
        repeat="repeat" in flags,
        reusable="ru" in flags,
        pseudo="ps" in flags or type_ in PSEUDO_TYPES or name_without_scope(name) in PSEUDO_NAMES,
        files_per_job=per_job,
        event_ratio=counted["er"] if counted.get("er", 0.0) > 0 else None,
        ratio=ratio if ratio > 0 and math.isfinite(ratio) else 1.0,
        malformed=tuple(malformed),
    )


def name_without_scope(name: str | None) -> str:
    """The part of a dataset name after ``scope:``; the whole name when it has no scope."""
    return (name or "").split(":", 1)[-1]


def scope_and_name(dataset_name: str | None) -> tuple[str, str]:
    """Scope and name of a dataset in the replica catalogue.

    Without ``scope:`` in front, the scope is the first dot-separated field of the name, and the first two for names of
    users and groups. A trailing ``/`` marks a container and is no part of the catalogue's name.
    """
    text = (dataset_name or "").rstrip("/")
    if ":" in text:
        scope, name = text.split(":", 1)
        return scope, name
    fields = text.split(".")
    taken = 2 if fields[0] in {"user", "group"} and len(fields) > 1 else 1
    return ".".join(fields[:taken]), text


def is_container(dataset_name: str | None) -> bool:
    """Whether the name is that of a container."""
    return (dataset_name or "").endswith("/")
