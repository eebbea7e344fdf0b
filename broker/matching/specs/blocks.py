"""A table of a document, read field by field: each value is checked, and an error names the field and the value.

Field names have the hyphens of v0.1; outside that profile underscores mean the same, as v0.2 writes them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from broker.matching.specs.documents import Number
from broker.matching.specs.problems import SpecRefused
from broker.matching.specs.spec import Bounds, Profile
from broker.matching.versions import version_key

MOST = 2**62
#: Documents with their specs under this name have the form of v0.1.
WITH_HYPHENS = "matching_specs"
_LONGEST_TEXT = 255
_WHOLE = re.compile(r"\s*[+-]?[0-9]+(?:_[0-9]+)*(?:\.0*)?\s*")
#: Texts and numbers that v0.1 takes for a boolean.
_TRUE, _FALSE = ("true", "t", "yes", "y", "on", "1"), ("false", "f", "no", "n", "off", "0")


class Block:
    """A table under a name, with a record of the fields that were read."""

    def __init__(self, path: str, values: object, profile: Profile) -> None:
        if not isinstance(values, Mapping):
            raise SpecRefused(path, values, "a table is wanted" if values is not None else "is missing")
        self.path, self.profile = path, profile
        self._names: dict[str, str] = {}
        self._values = self._spelled(values)
        self._known: set[str] = set()

    def _spelled(self, values: Mapping[Any, Any]) -> dict[str, Any]:
        if self.profile.v01:
            return {str(name): value for name, value in values.items()}
        by_name: dict[str, Any] = {}
        for name, value in values.items():
            plain = str(name).replace("_", "-")
            if plain in by_name:
                raise SpecRefused(self.at(str(name)), value, "stands twice, with a hyphen and an underscore")
            by_name[plain], self._names[plain] = value, str(name)
        return by_name

    def at(self, name: str) -> str:
        """The full name of a field as it was written; of a missing field, as the form of the document writes it."""
        has_hyphens = self.profile.v01 or self.path.startswith(WITH_HYPHENS)
        shown = self._names.get(name, name if has_hyphens else name.replace("-", "_"))
        return f"{self.path}.{shown}" if self.path else shown

    def raw(self, name: str) -> Any:
        """The value of a field; None for null and for a missing field."""
        self._known.add(name)
        return self._values.get(name)

    def has(self, name: str) -> bool:
        """Whether a field has a value other than null."""
        return self.raw(name) is not None

    def needed(self, name: str) -> Any:
        """The value of a field, which must be there.

        Raises:
            SpecRefused: it is missing, or null.
        """
        value = self.raw(name)
        if value is None:
            raise SpecRefused(self.at(name), None, "is missing")
        return value

    def one_of(self, *names: str) -> str:
        """The one of these names that has a value, else the first.

        Raises:
            SpecRefused: two of them have a value.
        """
        there = [name for name in names if self.has(name)]
        if len(there) > 1:
            raise SpecRefused(self.at(there[1]), self.raw(there[1]), f"stands beside {there[0]}, which is the same")
        return there[0] if there else names[0]

    def block(self, name: str) -> Block:
        """The table under a name, which must be there."""
        return Block(self.at(name), self.needed(name), self.profile)

    def maybe(self, name: str) -> Block | None:
        """The table under a name; None when there is none."""
        return self.block(name) if self.has(name) else None

    def text(self, name: str, *, empty: bool = False) -> str | None:
        """A text; None when there is none."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise SpecRefused(self.at(name), value, "a text is wanted; put it in quotes")
        if not empty and not value.strip():
            raise SpecRefused(self.at(name), value, "is empty")
        if len(value) > _LONGEST_TEXT:
            raise SpecRefused(self.at(name), value, f"{len(value)} characters; {_LONGEST_TEXT} are allowed")
        return value

    def choice(self, name: str, choices: Sequence[str]) -> str | None:
        """One of some texts, matched exactly; None when there is none."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, str) or value not in choices:
            raise SpecRefused(self.at(name), value, f"is none of {', '.join(choices)}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, each once, sorted; outside v0.1 a single text is a list of one."""
        value = self.raw(name)
        if value is None:
            return ()
        members = [value] if isinstance(value, str) and not self.profile.v01 else value
        if not isinstance(members, list | tuple):
            raise SpecRefused(self.at(name), value, "a list of texts is wanted")
        for place, member in enumerate(members):
            if not isinstance(member, str) or len(member) > _LONGEST_TEXT:
                raise SpecRefused(f"{self.at(name)}[{place}]", member, "a text is wanted")
        return tuple(sorted(set(members)))

    def whole(self, name: str, least: int) -> int | None:
        """A whole number of at least ``least``; None when there is none. Digits in quotes are a number."""
        value = self.raw(name)
        if value is None:
            return None
        number = _whole(value, bools=self.profile.v01)
        if number is None:
            raise SpecRefused(self.at(name), value, "a whole number is wanted")
        if number > MOST:
            raise SpecRefused(self.at(name), value, f"a number of at most {MOST:,} is wanted")
        if number < least:
            wanted = "a positive number" if least == 1 else f"a number of at least {least}"
            raise SpecRefused(self.at(name), value, f"{wanted} is wanted")
        return number

    def power(self, name: str) -> float | None:
        """A positive number, perhaps with a fraction; None when there is none."""
        value = self.raw(name)
        if value is None:
            return None
        try:
            number = float(value.value if isinstance(value, Number) else value)
        except (TypeError, ValueError) as error:
            raise SpecRefused(self.at(name), value, "a number is wanted") from error
        if isinstance(value, bool) or not (math.isfinite(number) and number > 0):
            raise SpecRefused(self.at(name), value, "a positive number is wanted")
        return number

    def truth(self, name: str) -> bool | None:
        """True or false; None when there is neither."""
        value = self.raw(name)
        if value is None or isinstance(value, bool):
            return value
        text = value.text if isinstance(value, Number) else value if isinstance(value, str) else ""
        if text.lower() in _TRUE or text.lower() in _FALSE:
            return text.lower() in _TRUE
        raise SpecRefused(self.at(name), value, "true or false is wanted")

    def version(self, name: str) -> str | None:
        """A version; None when there is none.

        Raises:
            SpecRefused: it is no version, or a number with a fraction: 2.30 is the number 2.3.
        """
        value = self.raw(name)
        if value is None:
            return None
        text = value
        if isinstance(value, Number):
            text = str(value.value)
            # v0.1 accepts numbers; a number that it would take for another version is refused there, too
            if not value.is_whole and not (self.profile.v01 and text == value.text):
                raise SpecRefused(self.at(name), value, "is a number, in which 2.30 is 2.3; put the version in quotes")
        if isinstance(value, float):
            raise SpecRefused(self.at(name), value, "is a number, in which 2.30 is 2.3; put the version in quotes")
        if isinstance(value, int) and not isinstance(value, bool):
            text = str(value)
        if not isinstance(text, str) or version_key(text) is None:
            raise SpecRefused(self.at(name), value, "is no version, such as 2.34")
        return text.strip()

    def check_format_version(self) -> None:
        """Check the version of the format as v0.1 does; it decides nothing."""
        self.refuse_null("version")
        value = self.raw("version")
        if value is not None and version_key(str(value.value if isinstance(value, Number) else value)) is None:
            raise SpecRefused(self.at("version"), value, "is no version")

    def bounds(self, name: str, least: int, *, open_end: bool) -> Bounds | None:
        """The table {min, max} of whole numbers; None when there is none.

        Args:
            name: name of the table.
            least: least value of each of the two.
            open_end: whether ``max`` may be missing.
        """
        inner = self.maybe(name)
        if inner is None:
            return None
        inner.needed("min")
        if not open_end:
            inner.needed("max")
        low, high = inner.whole("min", least) or 0, inner.whole("max", least)
        if high is not None and high < low:
            raise SpecRefused(inner.at("max"), inner.raw("max"), f"is less than min, {low}")
        inner.finish()
        return Bounds(low, high)

    def finish(self) -> None:
        """Refuse fields that were not read; v0.1 ignores them."""
        if self.profile.v01:
            return
        for name, value in self._values.items():
            if name not in self._known:
                raise SpecRefused(self.at(name), value, "there is no such field")

    def refuse_null(self, name: str) -> None:
        """Refuse a null for a field that may be missing: null is no number."""
        if name in self._values and self._values[name] is None:
            raise SpecRefused(self.at(name), None, "is null; leave it out or write a number")

    def refuse_unknown(self, name: str, field: str) -> None:
        """Refuse a field that the profile does not know, if it has a value."""
        if field in self.profile.refused and self.has(name):
            raise SpecRefused(self.at(name), self.raw(name), f"is no field of {self.profile.name}")


def _whole(value: object, *, bools: bool) -> int | None:
    if isinstance(value, bool):
        return int(value) if bools else None
    if isinstance(value, int):
        return value
    if isinstance(value, Number):
        return int(value.value) if math.isfinite(value.value) and value.value == int(value.value) else None
    if isinstance(value, str) and len(value) <= _LONGEST_TEXT and _WHOLE.fullmatch(value):
        return int(value.strip().partition(".")[0].replace("_", ""))
    return None
