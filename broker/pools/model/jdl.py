"""Job descriptions in JDL: attributes in brackets, with the section ``Requirements`` among them.

Every step takes at least one character or ends, so that any text ends in a description or an error with its place.
What is no string, number, list or section is an error: nothing turns silently into text. Source: DIRAC RFC 7.
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
        self._at = 0
        self._name: str | None = None
        self._in_specs = False

    def description(self) -> Section:
        self._skip()
        if not self._takes("["):
            self._refuse("expected-section", "a description begins with '['")
        section = self._section(1)
        self._skip()
        if self._at < len(self._text):
            self._refuse("text-after-end", "nothing may follow the last ']'")
        return section

    def _section(self, depth: int) -> Section:
        """What follows an opening bracket, with the closing one."""
        opened = self._at - 1
        deepest = DEEPEST_SPEC if self._in_specs else DEEPEST
        if depth > deepest:
            self._refuse("nesting-too-deep", f"sections nest to a depth of {deepest}", opened)
        section = Section()
        while True:
            self._skip()
            if self._takes("]"):
                return section
            if self._takes(";"):
                continue
            if self._at == len(self._text):
                self._refuse("unterminated-section", f"the section of {self._place(opened)} has no ']'")
            self._attribute(section, depth)

    def _attribute(self, section: Section, depth: int) -> None:
        found = _NAME.match(self._text, self._at)
        if found is None:
            self._refuse("expected-name", "a name or ']' is wanted here")
        name, start, outer = found[0], self._at, self._name
        self._name, self._at = name, found.end()
        self._skip()
        if not self._takes("="):
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
        if self._takes("["):
            return self._section(depth + 1)
        if self._takes("{"):
            return self._sections(depth) if depth == 1 and self._name == SEVERAL_SPECS else self._list()
        if self._in_specs and (word := _TRUTH.match(self._text, self._at)) is not None:
            self._at = word.end()
            return word[0]
        if self._next in (";", "]"):
            self._refuse("missing-value", "there is no value")
        return self._scalar("unterminated-section")

    def _begins_expression(self, name: str, depth: int) -> bool:
        """Whether tags without quotes follow: ``Tags = a & ~b;``."""
        is_place = (depth == 1 and name in TAGS) or (self._in_specs and name == "tags")
        return is_place and self._next not in ('"', "{", "[", ";", "]", "")

    def _expression(self) -> str:
        found = _EXPRESSION.match(self._text, self._at)
        text = "" if found is None else found[0].rstrip()
        if not text:
            self._refuse("expression-not-supported", "an expression has tags, &, |, ~ and parentheses")
        self._at += len(text)
        return text

    def _sections(self, depth: int) -> Section:
        """A list of sections, under their numbers; what follows an opening brace."""
        sections, opened = Section(), self._at - 1
        while True:
            self._skip()
            if self._takes("}"):
                return sections
            place = self._place(self._at)
            if not self._takes("["):
                at_end = self._at == len(self._text)
                code = "unterminated-list" if at_end else "expected-section"
                self._refuse(code, f"the list of {self._place(opened)} has sections in brackets and a '}}'")
            sections.add(Attribute(str(len(sections.attributes)), self._section(depth + 1), place))
            self._skip()
            if not self._takes(",") and self._next not in ("}", ""):
                self._refuse("expected-comma", "',' or '}' is wanted after a section")

    def _list(self) -> tuple[Scalar, ...]:
        members: list[Scalar] = []
        self._skip()
        if self._takes("}"):
            return ()
        while True:
            self._skip()
            if self._next in ("{", "["):
                self._refuse("nested-list", "a list has texts and numbers only")
            if self._next in (",", "}"):
                self._refuse("missing-value", "there is no value between the commas")
            members.append(self._scalar("unterminated-list"))
            self._skip()
            if self._takes("}"):
                return tuple(members)
            if not self._takes(","):
                at_end = self._at == len(self._text)
                code = "unterminated-list" if at_end else "expected-comma"
                self._refuse(code, "the list has no '}'" if at_end else "',' or '}' is wanted after a value")

    def _scalar(self, at_end: str) -> Scalar:
        if self._next == '"':
            return self._string()
        number = _NUMBER.match(self._text, self._at)
        if number is None:
            if self._at == len(self._text):
                self._refuse(at_end, "the text ends where a value is wanted")
            self._refuse("expression-not-supported", "only strings in quotes, numbers, lists and sections are values")
        if len(number[1] or "") > _EXPONENT_DIGITS:
            self._refuse("number-range", f"an exponent has at most {_EXPONENT_DIGITS} digits")
        if _GLUED.match(self._text, number.end()):
            self._refuse("expression-not-supported", "a number ends here and goes on as something else", number.end())
        self._at = number.end()
        return NumberLiteral(number[0])

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        end = len(self._text) if found is None else found.end()
        if self._text[end : end + 1] == "\\" and self._text[end + 1 : end + 2] not in ("", "\r", "\n"):
            self._refuse("bad-escape", 'in a string only \\" and \\\\ begin with a backslash', end)
        if self._text[end : end + 1] != '"':
            self._refuse("unterminated-string", "the string has no closing quote in its line")
        inner = self._text[self._at + 1 : end]
        self._at = end + 1
        return _ESCAPE.sub(r"\1", inner)

    def _end(self, value: RawValue | Section) -> None:
        """What ends an attribute: ';', or nothing before ']' and after a section."""
        self._skip()
        if self._takes(";") or self._next == "]" or isinstance(value, Section):
            return
        if self._at == len(self._text):
            self._refuse("unterminated-section", "the text ends before ']'")
        if _NEXT_ATTRIBUTE.match(self._text, self._at) or self._next in ('"', "{", "["):
            self._refuse("expected-semicolon", "';' is wanted after a value")
        self._refuse("expression-not-supported", "a value is a single literal; there are no operators")

    @property
    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _takes(self, character: str) -> bool:
        if self._next != character:
            return False
        self._at += 1
        return True

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._at)
        self._at = self._at if found is None else found.end()
        if self._text.startswith("/*", self._at):
            self._refuse("unterminated-comment", "the comment has no '*/'")

    def _place(self, at: int) -> Place:
        return Place(self._text.count("\n", 0, at) + 1, at - self._text.rfind("\n", 0, at))

    def _refuse(self, code: str, detail: str, at: int | None = None) -> NoReturn:
        raise RequirementRefused(code, detail, self._name, self._place(self._at if at is None else at))
