"""The answer to why-not: the deciding rule, the value that it saw, the limit, and the key that set the limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from broker.domain.decisions import Observation, Reason

CHOSEN = "chosen"
Verdict = Literal["pass", "fail", "not_reached", "unknown", "not_asked"]
"""The verdict of one rule on one candidate."""
UNKNOWN_NAME, UNKNOWN_NUCLEUS = "unknown_queue", "unknown_nucleus"

#: Reasons of every brokerage: for unknown candidates, and for those that nothing rejects.
REASONS = (
    Reason(
        code=CHOSEN,
        title="the candidate was chosen",
        who="wait",
        cure="Nothing is wrong: the work may be given to it.",
    ),
    Reason(
        code=UNKNOWN_NAME,
        title="the task names a queue that the snapshot does not have",
        violation="there is no queue of the name that the task gives",
        no_candidate="has the name that the task gives",
        who="you",
        cure="Correct the name of the queue in the task (`prun --site`); `broker queues` lists all queues.",
    ),
    Reason(
        code=UNKNOWN_NUCLEUS,
        title="the task's nucleus is not on the map",
        violation="the nucleus of the task is not a site on record",
        who="ask",
        cure="Operators correct the nucleus of the task, or the map of nuclei.",
    ),
    Reason(
        code="no_candidates",
        title="no queue was left",
        violation="every candidate was rejected",
        who="ask",
        cure="`broker explain TASK` names what rejected them; look up those codes.",
    ),
    Reason(
        code="unknown_RULE",
        title="a source of the rule is missing or too old, or the rule failed; the decision's notes say which",
        violation="nobody knows whether the queue fits: what the rule reads is missing or too old, or the rule failed",
        no_candidate="is known to pass the rule",
        who="ask",
        cure="Operators look at `broker alarms`, which names the source or the rule. The work goes on by itself when "
        "the source is back.",
    ),
)


@dataclass(frozen=True)
class CandidateVerdict:
    """The verdict on one candidate.

    Attributes:
        queue: the candidate (pseudo-queue).
        code: ``chosen``, or the code of what rejected it.
        rule: name of the deciding rule, or of a step that is not a rule.
        kind: ``persistent``, ``temporary``, or ``ranking`` for decisions after weighing.
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


#: The former name, for brokerages of other distributions.
Answer = CandidateVerdict


@dataclass(frozen=True)
class RuleVerdict:
    """The verdict of one rule on the candidate.

    ``verdict``: pass, fail, ``not_reached`` (an earlier rule had finally rejected it), ``unknown`` (it could not
    judge) or ``not_asked`` (the rule does not apply to this work). ``compared``: null if the rule did not judge.
    """

    rule: str
    code: str
    kind: str
    verdict: Verdict
    compared: Observation | None = None
