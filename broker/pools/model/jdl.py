"""Job descriptions in JDL: attributes in brackets, with the section ``Requirements`` among them.

Every step consumes at least one character or ends, so that any text results in a description or an error with its
place. Anything but a string, number, list or section is an error: nothing silently becomes text. Source: DIRAC RFC 7.
"""

from __future__ import annotations

import re
from typing import NoReturn

from broker.pools.model.description import (
    DEEPEST,
    DEEPEST_SPEC,
    ONE_SPEC,
    SEVERAL_SPECS,
    TAGS,
    Attribute,
    NumberLiteral,
    Place,
    RawValue,
    RequirementRefused,
    Scalar,
    Section,
    check_size,
)

_SPACE = re.compile(r"(?:[ \t\r\n\f\v]+|//[^\n]*|/\*(?s:.*?)\*/)*+")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NEXT_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z0-9_]*[ \t\r\n\f\v]*=(?!=)")
_STRING = re.compile(r'"[^"\\\r\n]*(?:\\["\\][^"\\\r\n]*)*')
_ESCAPE = re.compile(r'\\(["\\])')
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?([0-9]+))?")
_GLUED = re.compile(r"[A-Za-z0-9_.]")
_EXPONENT_DIGITS = 2
_EXPRESSION = re.compile(r"(?:(?!//|/\*)[A-Za-z0-9_.:/~&|() \t\r\n-])+")
_TRUTH = re.compile(r"(?:true|false)(?![A-Za-z0-9_.])")


def parse_jdl(text: str) -> Section:
    """The description in a text.

    Raises:
        RequirementRefused: with the place; the codes are listed in docs/explanation/submit-pools.md.
    """
    check_size(text)
    return _Parser(text).description()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._name: str | None = None
        self._in_specs = False

    def description(self) -> Section:
        self._skip()
        if not self._accept("["):
            self._refuse("expected-section", "a description begins with '['")
        section = self._section(1)
        self._skip()
        if self._position < len(self._text):
            self._refuse("text-after-end", "nothing may follow the last ']'")
        return section

    def _section(self, depth: int) -> Section:
        """Parse what follows an opening bracket, including the closing bracket."""
        start = self._position - 1
        deepest = DEEPEST_SPEC if self._in_specs else DEEPEST
        if depth > deepest:
            self._refuse("nesting-too-deep", f"sections nest to a depth of {deepest}", start)
        section = Section()
        while True:
            self._skip()
            if self._accept("]"):
                return section
            if self._accept(";"):
                continue
            if self._position == len(self._text):
                self._refuse("unterminated-section", f"the section of {self._place(start)} has no ']'")
            self._attribute(section, depth)

    def _attribute(self, section: Section, depth: int) -> None:
        match = _NAME.match(self._text, self._position)
        if match is None:
            self._refuse("expected-name", "a name or ']' is wanted here")
        name, start, outer = match[0], self._position, self._name
        self._name, self._position = name, match.end()
        self._skip()
        if not self._accept("="):
            self._refuse("expected-equals", "'=' is wanted after a name")
        self._skip()
        is_outermost_spec = depth == 1 and name in (ONE_SPEC, SEVERAL_SPECS)
        self._in_specs = self._in_specs or is_outermost_spec
        value = self._expression() if self._begins_expression(name, depth) else self._value(depth)
        self._in_specs = self._in_specs and not is_outermost_spec
        self._end(value)
        section.add(Attribute(name, value, self._place(start)))
        self._name = outer

    def _value(self, depth: int) -> RawValue | Section:
        if self._accept("["):
            return self._section(depth + 1)
        if self._accept("{"):
            return self._sections(depth) if depth == 1 and self._name == SEVERAL_SPECS else self._list()
        if self._in_specs and (word := _TRUTH.match(self._text, self._position)) is not None:
            self._position = word.end()
            return word[0]
        if self._next in (";", "]"):
            self._refuse("missing-value", "there is no value")
        return self._scalar("unterminated-section")

    def _begins_expression(self, name: str, depth: int) -> bool:
        """Whether tags without quotes follow: ``Tags = a & ~b;``."""
        is_place = (depth == 1 and name in TAGS) or (self._in_specs and name == "tags")
        return is_place and self._next not in ('"', "{", "[", ";", "]", "")

    def _expression(self) -> str:
        match = _EXPRESSION.match(self._text, self._position)
        text = "" if match is None else match[0].rstrip()
        if not text:
            self._refuse("expression-not-supported", "an expression has tags, &, |, ~ and parentheses")
        self._position += len(text)
        return text

    def _sections(self, depth: int) -> Section:
        """Parse what follows an opening brace: a list of sections, named by their numbers."""
        sections, start = Section(), self._position - 1
        while True:
            self._skip()
            if self._accept("}"):
                return sections
            place = self._place(self._position)
            if not self._accept("["):
                at_end = self._position == len(self._text)
                code = "unterminated-list" if at_end else "expected-section"
                self._refuse(code, f"the list of {self._place(start)} has sections in brackets and a '}}'")
            sections.add(Attribute(str(len(sections.attributes)), self._section(depth + 1), place))
            self._skip()
            if not self._accept(",") and self._next not in ("}", ""):
                self._refuse("expected-comma", "',' or '}' is wanted after a section")

    def _list(self) -> tuple[Scalar, ...]:
        members: list[Scalar] = []
        self._skip()
        if self._accept("}"):
            return ()
        while True:
            self._skip()
            if self._next in ("{", "["):
                self._refuse("nested-list", "a list has texts and numbers only")
            if self._next in (",", "}"):
                self._refuse("missing-value", "there is no value between the commas")
            members.append(self._scalar("unterminated-list"))
            self._skip()
            if self._accept("}"):
                return tuple(members)
            if not self._accept(","):
                at_end = self._position == len(self._text)
                code = "unterminated-list" if at_end else "expected-comma"
                self._refuse(code, "the list has no '}'" if at_end else "',' or '}' is wanted after a value")

    def _scalar(self, at_end: str) -> Scalar:
        if self._next == '"':
            return self._string()
        number = _NUMBER.match(self._text, self._position)
        if number is None:
            if self._position == len(self._text):
                self._refuse(at_end, "the text ends where a value is wanted")
            self._refuse("expression-not-supported", "only strings in quotes, numbers, lists and sections are values")
        if len(number[1] or "") > _EXPONENT_DIGITS:
            self._refuse("number-range", f"an exponent has at most {_EXPONENT_DIGITS} digits")
        if _GLUED.match(self._text, number.end()):
            self._refuse("expression-not-supported", "a number ends here and goes on as something else", number.end())
        self._position = number.end()
        return NumberLiteral(number[0])

    def _string(self) -> str:
        match = _STRING.match(self._text, self._position)
        end = len(self._text) if match is None else match.end()
        if self._text[end : end + 1] == "\\" and self._text[end + 1 : end + 2] not in ("", "\r", "\n"):
            self._refuse("bad-escape", 'in a string only \\" and \\\\ begin with a backslash', end)
        if self._text[end : end + 1] != '"':
            self._refuse("unterminated-string", "the string has no closing quote in its line")
        inner = self._text[self._position + 1 : end]
        self._position = end + 1
        return _ESCAPE.sub(r"\1", inner)

    def _end(self, value: RawValue | Section) -> None:
        """Parse the end of an attribute: ';', or nothing before ']' and after a section."""
        self._skip()
        if self._accept(";") or self._next == "]" or isinstance(value, Section):
            return
        if self._position == len(self._text):
            self._refuse("unterminated-section", "the text ends before ']'")
        if _NEXT_ATTRIBUTE.match(self._text, self._position) or self._next in ('"', "{", "["):
            self._refuse("expected-semicolon", "';' is wanted after a value")
        self._refuse("expression-not-supported", "a value is a single literal; there are no operators")

    @property
    def _next(self) -> str:
        return self._text[self._position : self._position + 1]

    def _accept(self, character: str) -> bool:
        if self._next != character:
            return False
        self._position += 1
        return True

    def _skip(self) -> None:
        match = _SPACE.match(self._text, self._position)
        self._position = self._position if match is None else match.end()
        if self._text.startswith("/*", self._position):
            self._refuse("unterminated-comment", "the comment has no '*/'")

    def _place(self, position: int) -> Place:
        return Place(self._text.count("\n", 0, position) + 1, position - self._text.rfind("\n", 0, position))

    def _refuse(self, code: str, detail: str, position: int | None = None) -> NoReturn:
        raise RequirementRefused(
            code, detail, self._name, self._place(self._position if position is None else position)
        )
