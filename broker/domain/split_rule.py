"""The split rule of a task: ``XX=value`` tokens that define how its input becomes jobs and where they may run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(r"^([A-Z]{2})=(-?\d+)$")
#: Initial value of a task before retry rules reduced the input of its jobs; used by these rules only.
_KEPT_BY_RETRIES = "RM="


@dataclass(frozen=True)
class SplitRule:
    """The tokens of ``jedi_tasks.splitrule``.

    ``values`` holds the integer of each token; ``malformed`` holds invalid pieces, which are reported, never used.
    Source: PanDA data model, task split rules.
    """

    values: dict[str, int] = field(default_factory=dict)
    malformed: tuple[str, ...] = ()

    def value(self, token: str, default: int = 0) -> int:
        """The integer of ``token``, or ``default`` if the rule lacks it."""
        return self.values.get(token, default)

    def has(self, token: str) -> bool:
        """Whether the token is present; flags are tested by presence."""
        return token in self.values


def parse_split_rule(text: str | None) -> SplitRule:
    """Read a split rule; an empty or NULL one has no tokens. The first of two equal tokens counts."""
    values: dict[str, int] = {}
    malformed: list[str] = []
    for piece in (text or "").split(","):
        stripped = piece.strip()
        if not stripped or stripped.startswith(_KEPT_BY_RETRIES):
            continue
        match = _TOKEN.match(stripped)
        if match is None:
            malformed.append(stripped[:40])
        else:
            values.setdefault(match.group(1), int(match.group(2)))
    return SplitRule(values, tuple(malformed))
