"""Values in files of one value each: the text of a file to a number or word, or the code of why it is none.

Machine/Job Features and Job-to-Machine share these rules. Source: HSF-TN-2016-02, directories and keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

_BLANKS = b" \t\r\n"
_INTEGER = re.compile(r"[0-9]{1,18}")
_SIGNED = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})?")
_WORD = re.compile(r"[!-~]{1,255}")

EMPTY = "empty"
NOT_ASCII = "not-ascii"
TOO_LONG = "too-long"
NOT_AN_INTEGER = "not-an-integer"
NOT_A_NUMBER = "not-a-number"
BAD_CHARACTERS = "bad-characters"
ZERO = "zero"


@dataclass(frozen=True)
class Unreadable:
    """A file that is there and gives no value; ``code`` says why."""

    code: str


Content: TypeAlias = bytes | Unreadable
Contents: TypeAlias = Mapping[str, Content]
"""What was found of a directory: content by key; a key that is not there is not set."""


class BadTextError(ValueError):
    """A text that is not of the wanted form; ``code`` says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def text_of(content: Content) -> str:
    """The text of a file without blanks and line ends around it.

    Raises:
        BadTextError: the file could not be read, is not ASCII, or is empty.
    """
    if isinstance(content, Unreadable):
        raise BadTextError(content.code)
    if not content.isascii():
        raise BadTextError(NOT_ASCII)
    text = content.strip(_BLANKS).decode("ascii")
    if not text:
        raise BadTextError(EMPTY)
    return text


def integer(text: str) -> int:
    """A whole number of 1 to 18 digits, without sign.

    Raises:
        BadTextError: it is none.
    """
    if not _INTEGER.fullmatch(text):
        raise BadTextError(NOT_AN_INTEGER)
    return int(text)


def signed_integer(text: str) -> int:
    """A whole number of 1 to 18 digits that may be negative.

    Raises:
        BadTextError: it is none.
    """
    if not _SIGNED.fullmatch(text):
        raise BadTextError(NOT_AN_INTEGER)
    return int(text)


def count(text: str) -> int:
    """A whole number above 0: somebody who writes 0 does not know.

    Raises:
        BadTextError: it is none.
    """
    value = integer(text)
    if value == 0:
        raise BadTextError(ZERO)
    return value


def rating(text: str) -> float:
    """A number above 0, with or without decimals; no exponent.

    Raises:
        BadTextError: it is none.
    """
    if not _DECIMAL.fullmatch(text):
        raise BadTextError(NOT_A_NUMBER)
    value = Decimal(text)
    if value == 0:
        raise BadTextError(ZERO)
    return float(value)


def word(text: str) -> str:
    """At most 255 printable ASCII characters without blanks.

    Raises:
        BadTextError: it is none.
    """
    if not _WORD.fullmatch(text):
        raise BadTextError(BAD_CHARACTERS)
    return text
