"""CFG text, one option per line with sections in braces: a form of job descriptions and resources.

Values have no type; a comma makes a list and double quotes protect it. Source: DIRAC RFC 7, the CFG form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from broker.pools.model.description import (
    DEEPEST,
    DEEPEST_SPEC,
    LARGEST_BYTES,
    ONE_SPEC,
    SEVERAL_SPECS,
    Attribute,
    Place,
    RequirementRefused,
    Section,
    check_size,
)

_OPTION = re.compile(r'(?P<name>[^\s={}",+#]+)\s*(?P<operator>\+?=)\s*(?P<value>.*)')
_SECTION = re.compile(r'(?P<name>[^\s={}",#]+)\s*(?P<brace>\{?)')
_QUOTED = re.compile(r'"(?P<inner>[^"\\]*(?:\\["\\][^"\\]*)*)"[ \t]*(?=,|$)')
_BLANK = re.compile(r"\s*")
_PLAIN = re.compile(r"[^,]*")
_ESCAPE = re.compile(r'\\(["\\])')
_SUSPICIOUS = re.compile(r'^=|["{}]|\s(?:#|//)')


@dataclass(frozen=True)
class CfgLimits:
    """Limits on what is read.

    Attributes:
        largest_bytes: size of the text in UTF-8.
        deepest: how deep sections nest, counting the text itself.
        empty_values: whether an option may have no value.
    """

    largest_bytes: int
    deepest: int
    empty_values: bool


JOB_LIMITS = CfgLimits(LARGEST_BYTES, DEEPEST, empty_values=False)
RESOURCE_LIMITS = CfgLimits(16 * 2**20, 12, empty_values=True)


def parse_cfg(text: str, limits: CfgLimits = JOB_LIMITS) -> Section:
    """The options and sections of a text.

    Raises:
        RequirementRefused: with the place; the codes are listed in docs/explanation/submit-pools.md.
    """
    check_size(text, limits.largest_bytes)
    reader = _Reader(limits)
    for number, line in enumerate(text.split("\n"), start=1):
        reader.read(number, line.rstrip("\r"))
    return reader.finish()


class _Reader:
    """Reads line by line."""

    def __init__(self, limits: CfgLimits) -> None:
        self._limits = limits
        self._open: list[tuple[Section, Place]] = [(Section(), Place(1, 1))]
        self._waiting: tuple[str, Place] | None = None
        self._place = Place(1, 1)

    def read(self, number: int, line: str) -> None:
        text = line.strip()
        if not text or text.startswith(("#", "//")):
            return
        self._place = Place(number, line.index(text) + 1)
        if text == "{":
            self._begin()
        elif self._waiting is not None:
            self._refuse("expected-section", "'{' is wanted after the name of a section", self._waiting[0])
        elif text == "}":
            self._close()
        elif option := _OPTION.fullmatch(text):
            self._option(option, self._place.column + option.start("value"))
        elif section := _SECTION.fullmatch(text):
            self._waiting = section["name"], self._place
            if section["brace"]:
                self._begin()
        else:
            self._refuse("expected-name", "a line is 'name = value', 'name +=', the name of a section, '{' or '}'")

    def finish(self) -> Section:
        if self._waiting is not None:
            self._refuse("expected-section", "'{' is wanted after the name of a section", self._waiting[0])
        if len(self._open) > 1:
            self._refuse("unterminated-section", f"the section of {self._open[-1][1]} has no '}}'")
        return self._open[0][0]

    def _begin(self) -> None:
        if self._waiting is None:
            self._refuse("expected-name", "a section has a name before its '{'")
        deepest = max(self._limits.deepest, DEEPEST_SPEC if self._is_in_specs() else 0)
        if len(self._open) >= deepest:
            self._refuse("nesting-too-deep", f"sections nest to a depth of {deepest}", self._waiting[0])
        section = Section()
        self._open[-1][0].add(Attribute(self._waiting[0], section, self._waiting[1]))
        self._open.append((section, self._waiting[1]))
        self._waiting = None

    def _is_in_specs(self) -> bool:
        outermost = next(reversed(self._open[0][0].attributes), None)
        return len(self._open) > 1 and outermost in (ONE_SPEC, SEVERAL_SPECS)

    def _close(self) -> None:
        if len(self._open) == 1:
            self._refuse("text-after-end", "'}' closes nothing")
        self._open.pop()

    def _option(self, option: re.Match[str], column: int) -> None:
        name, section = option["name"], self._open[-1][0]
        members = self._members(option["value"], name, column)
        if not option["value"] and not self._limits.empty_values:
            self._refuse("missing-value", "there is no value", name)
        known = section.attributes.get(name)
        if option["operator"] == "+=" and known is not None:
            if isinstance(known.value, Section):
                self._refuse("duplicate-name", "is a section already", name)
            if isinstance(known.value, list):
                known.value.extend(members)
            elif isinstance(known.value, str):
                section.replace(Attribute(name, [known.value, *members], known.place))
            return
        section.add(Attribute(name, members[0] if len(members) == 1 else members, self._place))

    def _members(self, text: str, name: str, column: int) -> list[str]:
        """The values between commas; quotes protect a comma in a value."""
        members, position = [], 0
        while True:
            blank = _BLANK.match(text, position)
            start = position if blank is None else blank.end()
            if text.startswith('"', start):
                match = _QUOTED.match(text, start)
                if match is None:
                    self._bad_quotes(text, start, name, column)
                members.append(_ESCAPE.sub(r"\1", match["inner"]))
            else:
                match = _PLAIN.match(text, start)
                plain = "" if match is None else match[0].strip()
                if odd := _SUSPICIOUS.search(plain):
                    self._refuse(
                        "expression-not-supported",
                        f"put a value with {odd[0].strip()!r} in quotes",
                        name,
                        column + start,
                    )
                members.append(plain)
            position = len(text) if match is None else match.end()
            if position >= len(text):
                return members
            position += 1

    def _bad_quotes(self, text: str, start: int, name: str, column: int) -> NoReturn:
        closed = re.match(r'"[^"\\]*(?:\\.[^"\\]*)*"', text[start:]) is not None
        code = "expected-comma" if closed else "unterminated-string"
        detail = (
            'a quoted value ends at a comma, and has only \\" and \\\\ as escapes' if closed else "no closing quote"
        )
        self._refuse(code, detail, name, column + start)

    def _refuse(self, code: str, detail: str, name: str | None = None, column: int | None = None) -> NoReturn:
        place = self._place if column is None else Place(self._place.line, column)
        raise RequirementRefused(code, detail, name, place)
