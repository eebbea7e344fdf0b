"""Checks the PromQL syntax used by our alert rules and dashboard, for machines without ``promtool``.

Source: Prometheus documentation, querying: basics, operators, functions.
"""

from __future__ import annotations

import re

AGGREGATIONS = frozenset({"sum", "min", "max", "avg", "count", "topk", "bottomk"})
#: Functions with the types of their arguments: an instant vector, a range vector, or a number.
FUNCTIONS = {
    "absent": ("vector",),
    "histogram_quantile": ("scalar", "vector"),
    "increase": ("range",),
    "min_over_time": ("range",),
    "rate": ("range",),
    "time": (),
    "clamp_min": ("vector", "scalar"),
}
_OPERATORS = (("or",), ("and", "unless"), ("==", "!=", "<=", "<", ">=", ">"), ("+", "-"), ("*", "/", "%"))
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?![\w.]))|(?P<range>\[\d+[smhdw]\])|(?P<name>[a-zA-Z_:][\w:]*)"
    r'|(?P<text>"(?:[^"\\]|\\.)*")|(?P<sign>=~|!~|==|!=|<=|>=|[-+*/%<>=(){},]))'
)


class SyntaxFault(ValueError):
    """An expression that Prometheus would refuse."""


class Expression:
    """One expression; ``kind`` is the type of its value: ``vector`` or ``scalar``."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at, text = 0, text.rstrip()
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                raise SyntaxFault(f"{text[at : at + 20]!r} at {at}")
            self._tokens.append((str(token.lastgroup), token[str(token.lastgroup)]))
            at = token.end()
        self.kind = self._binary(0)
        if self._tokens:
            raise SyntaxFault(f"{self._tokens[0][1]} is too much")
        if self.kind == "range":
            raise SyntaxFault("a range is no answer")

    def _is_next(self, *words: str) -> bool:
        return bool(self._tokens) and self._tokens[0][1] in words and self._tokens[0][0] != "text"

    def _take(self, *words: str, kind: str | None = None) -> str:
        if not self._tokens or (words and not self._is_next(*words)) or (kind and self._tokens[0][0] != kind):
            actual = self._tokens[0][1] if self._tokens else "the end"
            raise SyntaxFault(f"{' or '.join(words) or kind} was expected, not {actual}")
        return self._tokens.pop(0)[1]

    def _binary(self, level: int) -> str:
        if level == len(_OPERATORS):
            return self._operand()
        left = self._binary(level + 1)
        while self._is_next(*_OPERATORS[level]):
            operator = self._take()
            if self._is_next("on", "ignoring"):
                self._take()
                self._labels()
            right = self._binary(level + 1)
            if "range" in (left, right) or (level < 2 and "scalar" in (left, right)):
                raise SyntaxFault(f"{left} {operator} {right}")
            left = "vector" if "vector" in (left, right) else "scalar"
        return left

    def _operand(self) -> str:
        if self._is_next("("):
            self._take()
            kind = self._binary(0)
            self._take(")")
            return kind
        if self._tokens and self._tokens[0][0] == "number":
            self._take()
            return "scalar"
        name = self._take(kind="name")
        if name in AGGREGATIONS:
            return self._aggregation(name)
        if self._is_next("("):
            return self._call(name)
        if self._is_next("{"):
            self._matchers()
        if self._tokens and self._tokens[0][0] == "range":
            self._take()
            return "range"
        return "vector"

    def _aggregation(self, name: str) -> str:
        if self._is_next("by", "without"):
            self._take()
            self._labels()
        expected = ("scalar", "vector") if name in ("topk", "bottomk") else ("vector",)
        self._arguments(name, expected)
        if self._is_next("by", "without"):
            self._take()
            self._labels()
        return "vector"

    def _call(self, name: str) -> str:
        if name not in FUNCTIONS:
            raise SyntaxFault(f"no function {name}")
        self._arguments(name, FUNCTIONS[name])
        return "scalar" if name == "time" else "vector"

    def _arguments(self, name: str, expected: tuple[str, ...]) -> None:
        self._take("(")
        kinds = []
        while not self._is_next(")"):
            kinds.append(self._binary(0))
            if not self._is_next(")"):
                self._take(",")
        self._take(")")
        if tuple(kinds) != expected:
            raise SyntaxFault(f"{name} takes {expected}, not {kinds}")

    def _labels(self) -> None:
        self._take("(")
        while not self._is_next(")"):
            self._take(kind="name")
            if not self._is_next(")"):
                self._take(",")
        self._take(")")

    def _matchers(self) -> None:
        self._take("{")
        while not self._is_next("}"):
            self._take(kind="name")
            operator = self._take("=", "!=", "=~", "!~")
            value = self._take(kind="text")
            if operator in ("=~", "!~"):
                re.compile(value[1:-1])
            if not self._is_next("}"):
                self._take(",")
        self._take("}")
