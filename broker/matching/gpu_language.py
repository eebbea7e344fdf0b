"""GPU requests in the shorthand: ``vendor<-model>`` and attributes, as in ``nvidia:vram>=40960:uarch=Ampere``."""

from __future__ import annotations

import re
from typing import Any

from broker.matching.requirement import WILDCARD, GpuRequest, Problem
from broker.matching.versions import WRITTEN_OPERATORS, Constraint

KEYS = ("model", "vram", "cuda", "uarch", "driver")
ACCEPTED = (
    f"vendor<-model>, then :key operator value with a key of {', '.join(KEYS)} and an operator of "
    f"{' '.join(WRITTEN_OPERATORS)}, such as nvidia:vram>=40960:uarch=Ampere"
)
_ATTRIBUTE = re.compile(r"\s*([^\s=<>!]*)\s*(>=|<=|!=|==|>|<|=)\s*(.*?)\s*", re.DOTALL)


def read_gpu(text: str, offset: int, problems: list[Problem]) -> GpuRequest:
    """The request in the shorthand; ``offset`` is the place of ``text`` in the whole text.

    A piece without meaning has no effect and is a problem. The last attribute of a key counts, and the key ``model``
    goes before the model after the vendor. What follows a second dash of the first piece is no part of the model.
    """
    first, *pieces = text.split(":")
    vendor, model = (*(field.strip() for field in first.split("-")), "")[:2]
    fields: dict[str, Any] = {"vendor": vendor or WILDCARD, "model": model or WILDCARD}
    if "&" in text:
        what = "a second '&': the GPU begins with one"
        problems.append(Problem(offset + text.index("&") + 1, what, ACCEPTED))
    start = offset + len(first) + 1
    for piece in pieces:
        position = start + len(piece) - len(piece.lstrip()) + 1
        start += len(piece) + 1
        parsed = _ATTRIBUTE.fullmatch(piece)
        if parsed is None or parsed[1] not in KEYS:
            what = "no key, operator and value" if parsed is None else f"there is no key {parsed[1]!r}"
            problems.append(Problem(position, f"{what} in {piece.strip()[:60]!r}", ACCEPTED))
            continue
        _set(fields, parsed[1], parsed[2], parsed[3], position, problems)
    return GpuRequest(**fields)


def _set(fields: dict[str, Any], key: str, operator: str, value: str, position: int, problems: list[Problem]) -> None:
    if key in ("model", "uarch"):
        if not value:
            problems.append(Problem(position, f"{key} without a value", ACCEPTED))
            return
        if operator not in ("=", "==", "!="):
            problems.append(Problem(position, f"{key} is not compared by {operator}", f"{key}=value or {key}!=value"))
        excluded = operator == "!="
        if key == "model":
            fields.update(model=value, model_excluded=excluded)
        else:
            named = value != WILDCARD or excluded
            fields.update(generations=(value,) if named else None, generations_excluded=excluded)
        return
    if value == WILDCARD:
        fields[key] = None
        return
    constraint = Constraint("==" if operator == "=" else operator, value)
    check_constraint(constraint, key, position, problems)
    fields[key] = constraint


def check_constraint(constraint: Constraint, key: str, position: int, problems: list[Problem]) -> None:
    """Note a problem if nothing fulfils a constraint."""
    if not constraint.usable:
        accepted = f"an operator of {' '.join(WRITTEN_OPERATORS)} and a version, such as >=12.0"
        problems.append(Problem(position, f"{key}: nothing fulfils {str(constraint)[:60]!r}", accepted))
