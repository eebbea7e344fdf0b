"""Patterns that users write, on an engine whose time grows only with the text: no pattern can block the broker."""

from __future__ import annotations

from functools import lru_cache

import re2  # type: ignore[import-untyped]

#: A longer pattern is not compiled.
MAX_PATTERN_CHARACTERS = 10_000
#: The message of the engine about a pattern is cut to this length: it may repeat the whole pattern.
MAX_WHY_CHARACTERS = 120
#: Most bytes that a compiled pattern may take.
MAX_PATTERN_BYTES = 1 << 20


class PatternUnsupportedError(ValueError):
    """A pattern that the engine cannot take: wrong, too large, or with look-around or back references."""

    def __init__(self, pattern: str, why: str) -> None:
        self.pattern = pattern
        self.why = why[:MAX_WHY_CHARACTERS]
        super().__init__(f"{pattern[:60]!r}: {self.why}")


class SafePattern:
    """A compiled pattern.

    Attributes:
        pattern: as it was written.

    Raises:
        PatternUnsupportedError: the engine cannot take the pattern.
    """

    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        self.pattern = pattern
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise PatternUnsupportedError(pattern, f"longer than {MAX_PATTERN_CHARACTERS} characters")
        options = re2.Options()
        options.log_errors = False
        options.max_mem = MAX_PATTERN_BYTES
        options.case_sensitive = not ignore_case
        try:
            self._compiled = re2.compile(pattern, options)
        except re2.error as error:
            why = error.args[0] if error.args else "not a pattern"
            raise PatternUnsupportedError(pattern, _text_of(why)) from error
        except UnicodeError as error:
            raise PatternUnsupportedError(pattern, "not a text") from error

    def starts(self, text: str) -> bool:
        """Whether the pattern matches from the first character on (it need not reach the last)."""
        return self._compiled.match(_encodable(text)) is not None

    def occurs_in(self, text: str) -> bool:
        """Whether the pattern matches somewhere in the text."""
        return self._compiled.search(_encodable(text)) is not None

    def covers(self, text: str) -> bool:
        """Whether the pattern matches the whole text."""
        return self._compiled.fullmatch(_encodable(text)) is not None


def _text_of(why: object) -> str:
    return why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)


def _encodable(text: str) -> str:
    """The text with halves of surrogate pairs, which no database can store, replaced."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


@lru_cache(maxsize=4096)
def compiled(pattern: str, ignore_case: bool = False) -> SafePattern:
    """The compiled pattern; patterns in use are cached.

    Raises:
        PatternUnsupportedError: the engine cannot take the pattern.
    """
    return SafePattern(pattern, ignore_case=ignore_case)


def why_unsupported(pattern: str, *, ignore_case: bool = False) -> str | None:
    """Why the pattern is not supported; None if it is."""
    try:
        compiled(pattern, ignore_case)
    except PatternUnsupportedError as error:
        return error.why
    return None
