"""The answer to why-not: the deciding rule, the value that it saw, the limit, and the key that set the limit."""

from __future__ import annotations

from dataclasses import dataclass

from broker.domain.decisions import Observation

CHOSEN = "chosen"
UNKNOWN_NAME, UNKNOWN_NUCLEUS = "unknown_queue", "unknown_nucleus"


@dataclass(frozen=True)
class Answer:
    """What became of one candidate.

    Attributes:
        queue: the candidate (pseudo-queue).
        code: ``chosen``, or the code of what rejected it.
        rule: name of the deciding rule, or of the step that is no rule.
        kind: ``persistent``, ``temporary``, or ``ranking`` for what comes after weighing.
        title: one line on the rule.
        observation: value, limit and key; None where nothing was compared.
    """

    queue: str
    code: str
    rule: str
    kind: str
    title: str
    observation: Observation | None

    @property
    def is_known(self) -> bool:
        """Whether the snapshot has a candidate of this name."""
        return self.code not in (UNKNOWN_NAME, UNKNOWN_NUCLEUS)
