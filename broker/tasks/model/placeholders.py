"""Placeholders in the arguments of a job and in names of its output, such as ``${IN/L}``: parsed once a task.

Source: panda-server, ``jediorder/JobGenerator.py`` (``makeBuildJob``, ``getParallelParams``); names of placeholders.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from broker.tasks.model.formula import BadFormula, Formula, parse_formula
from broker.tasks.model.values import BadParameter

#: Numbers of a job. SN has a form with six digits, and others in names of output.
NUMBERS = ("SN", "RNDMSEED", "FIRSTEVENT", "SKIPEVENTS", "MAXEVENTS", "SEQNUMBER", "ATTEMPTNR", "PANDAID")
OF_TASK = ("JEDITASKID", "SURL")
#: Ways to write a list of files: comma list, quoted, blanks, Python list, names of the container, without quotes.
LIST_FLAGS = ("L", "A", "S", "T", "F", "E")
SIX_DIGITS = 6
_OUTPUT = re.compile(r"(?:OUTPUT|LOG)\d+")
_WHOLE = re.compile(r"\$\{([^{}]*)\}")
_PARTS = re.compile(
    r"(?P<name>[A-Z][A-Z0-9_]*)(?P<slice>\[[^\[\]]*\])?(?P<flags>(?:/[A-Z])*?)(?:/M\[(?P<formula>[^\[\]]*)\])?"
)
_SLICE = re.compile(r"\[(-?\d{1,9})?(:)?(-?\d{1,9})?(?::(-?\d{1,9})?)?\]")
NUMBER_IN_NAME = re.compile(r"\$\{SN(?:/P|:0?([1-9]\d?)d|:d)?\}")
"""The serial number in the name of an output."""


@dataclass(frozen=True)
class Placeholder:
    """A placeholder.

    Attributes:
        text: as it stands in the template.
        name: the name of the stream or the number.
        chosen: which of the files of a stream; None for all.
        flags: letters after the name.
        formula: the formula of the number; None without one.
        width: minimum number of digits.
    """

    text: str
    name: str
    chosen: slice | int | None = None
    flags: tuple[str, ...] = ()
    formula: Formula | None = None
    width: int = 0

    @property
    def is_output(self) -> bool:
        """Whether it is the name of an output or a log."""
        return _OUTPUT.fullmatch(self.name) is not None


Template = tuple[str | Placeholder, ...]
"""Texts and placeholders, in order."""


def parse_template(field: str, text: str) -> Template:
    """Parse a text with its placeholders.

    Raises:
        BadParameter: one of them is not a placeholder, or its slice or formula cannot be read.
    """
    parts: list[str | Placeholder] = []
    end = 0
    for match in _WHOLE.finditer(text):
        parts += [text[end : match.start()], _placeholder(field, match[0], match[1])]
        end = match.end()
    rest = text[end:]
    if "${" in rest:
        raise BadParameter(field, rest, "${ has no } behind it", "close the placeholder")
    return tuple(part for part in (*parts, rest) if part)


def _placeholder(field: str, whole: str, inner: str) -> Placeholder:
    numbered = NUMBER_IN_NAME.fullmatch(whole)
    if numbered is not None:
        return Placeholder(whole, "SN", width=SIX_DIGITS if "/P" in whole else int(numbered[1] or 0))
    match = _PARTS.fullmatch(inner)
    if match is None:
        raise BadParameter(field, whole, "it is no placeholder", "write ${NAME}, ${NAME/L} or ${NAME[0:2]}")
    name, flags = match["name"], tuple(match["flags"].split("/")[1:])
    formula = None
    if match["formula"] is not None:
        try:
            formula = parse_formula(match["formula"])
        except BadFormula as bad:
            raise BadParameter(field, whole, str(bad), "write a formula such as #*100+1") from bad
    allowed = () if name in (*NUMBERS, *OF_TASK) else LIST_FLAGS
    unknown = [flag for flag in flags if flag not in allowed]
    if unknown:
        known = ", ".join(f"/{flag}" for flag in allowed) or "none"
        raise BadParameter(field, whole, f"/{unknown[0]} is not known behind {name}", f"known are: {known}")
    chosen = _chosen(field, whole, match["slice"])
    if chosen is not None and name in (*NUMBERS, *OF_TASK):
        raise BadParameter(field, whole, f"{name} is one number and has no parts", f"write ${{{name}}}")
    return Placeholder(whole, name, chosen, flags, formula)


def _chosen(field: str, whole: str, text: str | None) -> slice | int | None:
    """The slice or index in brackets; None without brackets.

    >>> _chosen("", "", "[0:2]"), _chosen("", "", "[-1]")
    (slice(0, 2, None), -1)
    """
    if text is None:
        return None
    match = _SLICE.fullmatch(text)
    if match is None or (match[2] is None and (match[1] is None or match[3] is not None or match[4] is not None)):
        raise BadParameter(field, whole, "it has no slice of whole numbers", "write [0], [0:2] or [1:]")
    if match[2] is None:
        return int(match[1])
    first, stop, step = (None if part is None else int(part) for part in (match[1], match[3], match[4]))
    if step == 0:
        raise BadParameter(field, whole, "the step of a slice is not 0", "leave it out")
    return slice(first, stop, step)
