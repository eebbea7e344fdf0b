"""What a job is called with: the template of its task with the files and numbers of the job in their places.

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
    """What a job has.

    Attributes:
        streams: names of the files of each stream.
        containers: name of the container of each stream, else of its dataset.
        outputs: name of the file of each stream of output.
        numbers: of the job, by name.
        texts: of the task, by name.
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
    return "".join(one if isinstance(one, str) else _text(one, values) for one in template)


def expand_what_is_there(template: Template, values: JobValues) -> str:
    """The text for a job, with the placeholders that it cannot fill as they stand: its payload fails and shows them.

    >>> from broker.tasks.model.placeholders import parse_template
    >>> expand_what_is_there(parse_template("", "${SN} ${IN[2]}"), JobValues({"IN": ["a"]}, numbers={"SN": 3}))
    '3 ${IN[2]}'
    """
    return "".join(one if isinstance(one, str) else _text_or_itself(one, values) for one in template)


def _text_or_itself(one: Placeholder, values: JobValues) -> str:
    try:
        return _text(one, values)
    except CannotExpand:
        return one.text


def _text(one: Placeholder, values: JobValues) -> str:
    if one.name in values.numbers:
        return _number(one, values.numbers[one.name])
    if one.name in values.texts:
        return values.texts[one.name]
    if one.name in values.outputs:
        return values.outputs[one.name]
    if one.name in values.streams:
        return _files(one, values)
    raise CannotExpand(f"{one.text}: the job has no {one.name}")


def _number(one: Placeholder, number: int) -> str:
    return f"{_worked_out(one, number):0{one.width}d}"


def _worked_out(one: Placeholder, number: int) -> int:
    if one.formula is None:
        return number
    try:
        return one.formula.value(number)
    except BadFormula as bad:
        raise CannotExpand(f"{one.text}: {bad}") from bad


def _files(one: Placeholder, values: JobValues) -> str:
    names: Sequence[str] = sorted(dict.fromkeys(values.streams[one.name]))
    if isinstance(one.chosen, int):
        names = names[one.chosen :][:1] if one.chosen >= 0 else names[: len(names) + one.chosen + 1][-1:]
    elif one.chosen is not None:
        names = names[one.chosen]
    if not names:
        raise CannotExpand(f"{one.text}: the job reads no such file of {one.name}")
    if one.formula is not None:
        names = [str(_worked_out(one, _as_number(one, name))) for name in names]
    if "F" in one.flags:
        return "tmpin_" + values.containers.get(one.name, one.name).rstrip("/").split(":")[-1]
    if "T" in one.flags:
        return str(list(names))
    if "L" in one.flags:
        return (" " if "S" in one.flags else ",").join(f"'{name}'" if "A" in one.flags else name for name in names)
    return names[0] if len(names) == 1 else compact(names)


def _as_number(one: Placeholder, name: str) -> int:
    if not (name.isascii() and name.isdigit() and len(name) < 19):
        raise CannotExpand(f"{one.text}: {name} is no number")
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
