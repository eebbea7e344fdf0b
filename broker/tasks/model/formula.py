"""Formulae of one number in placeholders, such as ``#*100+1``: parsed into a tree of their own, never run as code.

Source: panda-server, ``jediorder/JobGenerator.py``, ``/M[...]``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

LONGEST_FORMULA = 200
LARGEST = 10**18
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: lambda left, right: left % right,
}
_VARIABLE = "N"


class BadFormula(ValueError):
    """A formula that cannot be worked out."""


@dataclass(frozen=True)
class Formula:
    """A formula of one number, ``#``.

    >>> parse_formula("#*100+1").value(3)
    301
    """

    text: str
    tree: ast.expr

    def value(self, number: int) -> int:
        """The result for ``#`` = ``number``.

        Raises:
            BadFormula: a division by zero, or a number of more than 18 digits.
        """
        return _value(self.tree, number)


def parse_formula(text: str) -> Formula:
    """Parse the formula in a text: whole numbers, ``#``, ``+ - * // %`` and parentheses.

    Raises:
        BadFormula: the text has anything else.
    """
    if len(text) > LONGEST_FORMULA:
        raise BadFormula(f"it is longer than {LONGEST_FORMULA} characters")
    if _VARIABLE in text:
        raise BadFormula("a formula has no names but #")
    try:
        tree = ast.parse(text.replace("#", f" {_VARIABLE} ").strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadFormula("it is no formula") from error
    _check(tree)
    return Formula(text, tree)


def _check(node: ast.expr) -> None:
    if isinstance(node, ast.BinOp):
        if type(node.op) not in _OPERATORS:
            raise BadFormula("a formula has + - * // % and parentheses only")
        _check(node.left)
        _check(node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        _check(node.operand)
    elif isinstance(node, ast.Constant):
        if type(node.value) is not int or node.value > LARGEST:
            raise BadFormula("a formula has whole numbers of at most 18 digits")
    elif not (isinstance(node, ast.Name) and node.id == _VARIABLE):
        raise BadFormula("a formula has whole numbers, #, + - * // % and parentheses only")


def _value(node: ast.expr, number: int) -> int:
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, number), _value(node.right, number)
        try:
            result = _OPERATORS[type(node.op)](left, right)
        except ZeroDivisionError as error:
            raise BadFormula("it divides by zero") from error
    elif isinstance(node, ast.UnaryOp):
        result = -_value(node.operand, number)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        result = node.value
    else:
        result = number
    if abs(result) > LARGEST:
        raise BadFormula("its result has more than 18 digits")
    return result
