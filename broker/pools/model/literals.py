"""The values that a requirement can have: texts, and numbers that stay text: nothing is lost to binary floats."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from broker.pools.model.problems import RequirementRefused

LONGEST_VALUE = 255
#: A number has fewer digits than this before the point, and not more than that behind it.
INTEGER_DIGITS, DECIMALS = 18, 12

_NUMBER = re.compile(r"(?P<sign>[+-]?)(?P<whole>[0-9]+)(?:\.(?P<decimals>[0-9]+))?(?:[eE](?P<exponent>[+-]?[0-9]+))?")
_EXPONENT_DIGITS = 2


@dataclass(frozen=True)
class NumberLiteral:
    """A number as it was written, without quotes."""

    text: str


Scalar = str | NumberLiteral
RawValue = Scalar | Sequence[Scalar]
"""What a job wrote for one requirement; a list is any sequence that is no text."""


def decimal_text(text: str) -> str:
    """The one way to write a number: no exponent, no plus sign, no leading or trailing zeros, no minus at 0.

    Raises:
        RequirementRefused: ``not-a-number``, ``value-too-long``, or ``number-range`` from 10^18 on or with more than
            12 decimals.
    """
    if len(text) > LONGEST_VALUE:
        raise _too_long(text)
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise RequirementRefused("not-a-number", f"{_short(text)} is no number; units and operators are not read")
    exponent = found["exponent"] or "0"
    # The length decides before anything is expanded: 1e999999999 has a billion digits.
    if len(exponent.lstrip("+-")) > _EXPONENT_DIGITS:
        raise _out_of_range(text)
    decimals = found["decimals"] or ""
    digits, point = found["whole"] + decimals, len(found["whole"]) + int(exponent)
    if point < 0:
        digits, point = "0" * -point + digits, 0
    digits = digits.ljust(point, "0")
    whole, fraction = digits[:point].lstrip("0"), digits[point:].rstrip("0")
    if len(whole) > INTEGER_DIGITS or len(fraction) > DECIMALS:
        raise _out_of_range(text)
    shown = (whole or "0") + ("." + fraction if fraction else "")
    return f"-{shown}" if found["sign"] == "-" and shown != "0" else shown


def number_of(text: str) -> Decimal | None:
    """The exact number in a text; None when there is none, or one that no requirement may have."""
    try:
        return Decimal(decimal_text(text))
    except RequirementRefused:
        return None


def plain_text(text: str) -> str:
    """A text in the form in which texts are compared: Unicode NFC, without white space around it."""
    return unicodedata.normalize("NFC", text).strip()


def checked_text(text: str) -> str:
    """The text of a requirement.

    Raises:
        RequirementRefused: ``empty-value``, ``value-too-long`` or ``control-character``.
    """
    if len(text) > 4 * LONGEST_VALUE:  # normalising is not for texts of any length
        raise _too_long(text)
    plain = plain_text(text)
    if not plain:
        raise RequirementRefused("empty-value", "the text is empty")
    if len(plain) > LONGEST_VALUE:
        raise _too_long(plain)
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in plain):
        raise RequirementRefused("control-character", f"{_short(plain)} has a control character or half a character")
    return plain


def _too_long(text: str) -> RequirementRefused:
    return RequirementRefused("value-too-long", f"{len(text)} characters; {LONGEST_VALUE} are allowed")


def _out_of_range(text: str) -> RequirementRefused:
    accepted = f"below 10^{INTEGER_DIGITS} and at most {DECIMALS} decimals"
    return RequirementRefused("number-range", f"{_short(text)} is out of range; accepted: {accepted}")


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
