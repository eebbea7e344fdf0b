"""Text from strangers made safe for a terminal: control characters and marks that reorder text are escaped."""

from __future__ import annotations

import sys
import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def escaped(value: object) -> str:
    """``value`` as text in which every character is visible and stays on its line."""
    text = "" if value is None else str(value)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def columns_of(text: str) -> int:
    """The columns of a terminal that ``text`` takes; wide characters take two."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


def remark(text: str) -> None:
    """Prints a line on stderr."""
    print(escaped(text), file=sys.stderr, flush=True)


def _visible(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN:
        return character
    code = ord(character)
    if code < 0x100:
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
