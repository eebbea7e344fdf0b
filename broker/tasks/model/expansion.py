"""The arguments of a job: the template of its task with the files and numbers of the job in their places.

Source: panda-server, ``jediorder/JobGenerator.py``, placeholders of input streams.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker.tasks.model.formula import BadFormula
from broker.tasks.model.placeholders import Placeholder, Template

_ATTEMPT = re.compile(r"\.\d+$")


class CannotExpand(ValueError):
    """A template that cannot be filled for a job."""


@dataclass(frozen=True)
class JobValues:
    """The values of a job.

    Attributes:
        streams: names of the files of each stream.
        containers: name of the container of each stream, else of its dataset.
        outputs: name of the file of each stream of output.
        numbers: the numbers of the job, by name.
        texts: the texts of the task, by name.
    """

    streams: Mapping[str, Sequence[str]] = field(default_factory=dict)
    containers: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


def expand(template: Template, values: JobValues) -> str:
    """The text for a job.

    Raises:
        CannotExpand: the job lacks what a placeholder stands for.
    """
    return "".join(part if isinstance(part, str) else _text(part, values) for part in template)


def expand_what_is_there(template: Template, values: JobValues) -> str:
    """The text for a job; placeholders that it cannot fill stay as they stand: its payload fails and shows them.

    >>> from broker.tasks.model.placeholders import parse_template
    >>> expand_what_is_there(parse_template("", "${SN} ${IN[2]}"), JobValues({"IN": ["a"]}, numbers={"SN": 3}))
    '3 ${IN[2]}'
    """
    return "".join(part if isinstance(part, str) else _text_or_itself(part, values) for part in template)


def _text_or_itself(placeholder: Placeholder, values: JobValues) -> str:
    try:
        return _text(placeholder, values)
    except CannotExpand:
        return placeholder.text


def _text(placeholder: Placeholder, values: JobValues) -> str:
    if placeholder.name in values.numbers:
        return _number(placeholder, values.numbers[placeholder.name])
    if placeholder.name in values.texts:
        return values.texts[placeholder.name]
    if placeholder.name in values.outputs:
        return values.outputs[placeholder.name]
    if placeholder.name in values.streams:
        return _files(placeholder, values)
    raise CannotExpand(f"{placeholder.text}: the job has no {placeholder.name}")


def _number(placeholder: Placeholder, number: int) -> str:
    return f"{_worked_out(placeholder, number):0{placeholder.width}d}"


def _worked_out(placeholder: Placeholder, number: int) -> int:
    if placeholder.formula is None:
        return number
    try:
        return placeholder.formula.value(number)
    except BadFormula as bad:
        raise CannotExpand(f"{placeholder.text}: {bad}") from bad


def _files(placeholder: Placeholder, values: JobValues) -> str:
    names: Sequence[str] = sorted(dict.fromkeys(values.streams[placeholder.name]))
    if isinstance(placeholder.chosen, int):
        names = (
            names[placeholder.chosen :][:1]
            if placeholder.chosen >= 0
            else names[: len(names) + placeholder.chosen + 1][-1:]
        )
    elif placeholder.chosen is not None:
        names = names[placeholder.chosen]
    if not names:
        raise CannotExpand(f"{placeholder.text}: the job reads no such file of {placeholder.name}")
    if placeholder.formula is not None:
        names = [str(_worked_out(placeholder, _as_number(placeholder, name))) for name in names]
    if "F" in placeholder.flags:
        return "tmpin_" + values.containers.get(placeholder.name, placeholder.name).rstrip("/").split(":")[-1]
    if "T" in placeholder.flags:
        return str(list(names))
    if "L" in placeholder.flags:
        return (" " if "S" in placeholder.flags else ",").join(
            f"'{name}'" if "A" in placeholder.flags else name for name in names
        )
    return names[0] if len(names) == 1 else compact(names)


def _as_number(placeholder: Placeholder, name: str) -> int:
    if not (name.isascii() and name.isdigit() and len(name) < 19):
        raise CannotExpand(f"{placeholder.text}: {name} is no number")
    return int(name)


def compact(names: Sequence[str]) -> str:
    """Names that differ in one run of digits as ``head[1,2,4]tail``, numbers of attempts cut; else a comma list.

    >>> compact(["a._001.root.1", "a._002.root.3"]), compact(["n9", "n10"]), compact(["a.x", "b.x"])
    ('a._00[1,2].root', 'n[9,10]', 'a.x,b.x')
    """
    cut = [_ATTEMPT.sub("", name) for name in names]
    if len(set(cut)) < len(cut):
        cut = list(names)
    head = _common(cut)
    while head and head[-1].isdigit() and any(not name[len(head) :][:1].isdigit() for name in cut):
        head = head[:-1]
    rests = [name[len(head) :] for name in cut]
    tail = _common([rest[::-1] for rest in rests])[::-1]
    while tail and tail[0].isdigit():
        tail = tail[1:]
    middles = [rest[: len(rest) - len(tail)] for rest in rests]
    if not all(middle.isascii() and middle.isdigit() for middle in middles):
        return ",".join(names)
    return f"{head}[{','.join(middles)}]{tail}"


def _common(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    length = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:length]
