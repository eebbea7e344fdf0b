"""Boolean expressions over tags: ``cvmfs:lhcb & (os:el9 | os:alma9) & ~net:degraded``.

``~`` binds before ``&``, and ``&`` before ``|``. An expression is parsed once, at submission, into one form for all
ways to write the same. Source: DiracX, comparison of job and node metadata, v0.1 (code) and v0.2.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NoReturn

LARGEST_BYTES = 4096
DEEPEST = 32
MOST_ATOMS = 256

Operator = Literal["atom", "~", "&", "|"]
_BINDS = {"|": 0, "&": 1, "~": 2, "atom": 3}
_WORDS = {"and": "&", "or": "|", "not": "~"}
ATOM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]*")
_ATOM_V01 = re.compile(r"[A-Za-z0-9][A-Za-z0-9:_.\-]*")
_BLANK = re.compile(r"[ \t\r\n]*")


class TagsRefused(ValueError):
    """An expression that cannot be read; the message says where and what is wanted there."""


@dataclass(frozen=True, order=True)
class Tags:
    """An expression, or a part of one.

    Attributes:
        operator: ``atom``, ``~``, ``&`` or ``|``.
        atom: the tag, for an atom.
        parts: what the operator joins: sorted, each once, none of them of the same operator.
    """

    operator: Operator
    atom: str = ""
    parts: tuple[Tags, ...] = ()

    @cached_property
    def atoms(self) -> frozenset[str]:
        """All tags that the expression mentions."""
        return frozenset((self.atom,)) if self.operator == "atom" else frozenset().union(*(p.atoms for p in self.parts))

    def holds(self, tags: Collection[str]) -> bool:
        """Whether it is true where exactly these tags are present."""
        if self.operator == "atom":
            return self.atom in tags
        if self.operator == "~":
            return not self.parts[0].holds(tags)
        if self.operator == "&":
            return all(part.holds(tags) for part in self.parts)
        return any(part.holds(tags) for part in self.parts)

    @property
    def needed(self) -> frozenset[str]:
        """The tags without which it is never true, as far as the top level shows: those joined by ``&`` there."""
        if self.operator == "&":
            return frozenset(part.atom for part in self.parts if part.operator == "atom")
        return frozenset((self.atom,)) if self.operator == "atom" else frozenset()

    def __str__(self) -> str:
        if self.operator == "atom":
            return self.atom
        if self.operator == "~":
            return f"~{self._inner(self.parts[0])}"
        return f" {self.operator} ".join(map(self._inner, self.parts))

    def _inner(self, part: Tags) -> str:
        return str(part) if _BINDS[part.operator] > _BINDS[self.operator] else f"({part})"


@lru_cache(maxsize=8192)
def parse_tags(text: str, *, v01: bool = False) -> Tags | None:
    """The expression in a text; None for an empty one, which holds everywhere.

    Args:
        text: what was written.
        v01: accept the tags and the words ``and``, ``or``, ``not`` of v0.1, whose code refuses a leading blank.

    Raises:
        TagsRefused: it is no expression, longer than 4,096 bytes, deeper than 32 or of more than 256 tags.
    """
    if len(text.encode("utf-8", "surrogatepass")) > LARGEST_BYTES:
        raise TagsRefused(f"longer than {LARGEST_BYTES:,} bytes")
    if not text or (not v01 and not text.strip()):
        return None
    if v01 and text[0].isspace():
        raise TagsRefused("it begins with a blank, which v0.1 refuses")
    parser = _Parser(text, v01)
    return parser.expression()


class _Parser:
    def __init__(self, text: str, v01: bool) -> None:
        self._text, self._v01, self._at, self._atoms = text, v01, 0, 0
        self._skip()

    def expression(self) -> Tags:
        tags = self._choice(0)
        if self._at < len(self._text):
            self._refuse("'&', '|' or the end is wanted; write & for and, | for or, ~ for not")
        return tags

    def _choice(self, depth: int) -> Tags:
        parts = [self._all(depth)]
        while self._takes("|"):
            parts.append(self._all(depth))
        return joined("|", parts)

    def _all(self, depth: int) -> Tags:
        parts = [self._one(depth)]
        while self._takes("&"):
            parts.append(self._one(depth))
        return joined("&", parts)

    def _one(self, depth: int) -> Tags:
        is_denied = False
        while self._takes("~"):
            is_denied = not is_denied
        if self._takes("("):
            if depth == DEEPEST:
                self._refuse(f"parentheses nest deeper than {DEEPEST}")
            part = self._choice(depth + 1)
            if not self._takes(")"):
                self._refuse("')' is wanted")
        else:
            part = self._tag()
        return denied(part) if is_denied else part

    def _tag(self) -> Tags:
        word = self._word()
        if word is None or (self._v01 and word in _WORDS):
            self._refuse("a tag, '~' or '(' is wanted: letters, digits and _ . : / - make a tag")
        self._atoms += 1
        if self._atoms > MOST_ATOMS:
            self._refuse(f"more than {MOST_ATOMS} tags")
        self._at += len(word)
        self._skip()
        return Tags("atom", word)

    def _takes(self, sign: str) -> bool:
        width = 0
        if self._text.startswith(sign, self._at):
            width = 1
        elif self._v01 and (word := self._word()) is not None and _WORDS.get(word) == sign:
            width = len(word)
        self._at += width
        if width:
            self._skip()
        return bool(width)

    def _word(self) -> str | None:
        match = (_ATOM_V01 if self._v01 else ATOM).match(self._text, self._at)
        return None if match is None else match[0]

    def _skip(self) -> None:
        match = _BLANK.match(self._text, self._at)
        self._at = self._at if match is None else match.end()

    def _refuse(self, what: str) -> NoReturn:
        raise TagsRefused(f"character {self._at + 1}: {what}")


def joined(operator: Literal["&", "|"], parts: list[Tags]) -> Tags:
    """The parts joined by one operator: flat, sorted, each once."""
    flat: set[Tags] = set()
    for part in parts:
        flat.update(part.parts if part.operator == operator else (part,))
    return next(iter(flat)) if len(flat) == 1 else Tags(operator, parts=tuple(sorted(flat)))


def denied(part: Tags) -> Tags:
    """The negation; a double negation cancels out."""
    return part.parts[0] if part.operator == "~" else Tags("~", parts=(part,))
