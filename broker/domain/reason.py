"""Reasons: what a code means, who can act, and what to do, stated by the rule or step that gives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from broker.domain.requests import Request

Who = Literal["you", "wait", "ask"]


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why a candidate is rejected, or why a chunk or task waits, stated by the rule or step that gives the code.

    Texts are plain English in Markdown, for a user of the grid. ``title``, ``violation`` and ``no_candidate`` end
    without a full stop, since they become parts of sentences.

    Attributes:
        code: what is stored with decisions: PanDA's criteria token without the sign where one exists. A part in
            capitals at the end, as in ``unknown_RULE``, stands for any name.
        title: of a rule, what holds of the candidates that it keeps; of a step, what happened, in one line.
        violation: what is wrong, in one line; empty where ``title`` says so already.
        no_candidate: completes "No queue ...", for work of which every candidate has this reason; empty for a reason
            that is not about candidates.
        who: can act: the user who submitted the work (``you``), nobody, since it passes by itself (``wait``), or
            whoever runs the sites and the broker (``ask``).
        cure: what they can do, in full sentences.
        requests: figures of the task that the rule compares, and that a user may lower.
        limit: field of the queue that the rule compares with them (``queue.maxrss``); empty without one.
    """

    code: str
    title: str
    violation: str = ""
    no_candidate: str = ""
    who: Who
    cure: str
    requests: tuple[Request, ...] = ()
    limit: str = ""

    @property
    def wrong(self) -> str:
        """The violation, or the title without one, in one line with a capital letter and no full stop."""
        text = self.violation or self.title
        return text[:1].upper() + text[1:]

    @property
    def stem(self) -> str:
        """Prefix of the codes of a family, such as ``unknown_`` of ``unknown_RULE``; empty for a single code."""
        stem, _, last = self.code.rpartition("_")
        return f"{stem}_" if last.isupper() else ""


def undeclared(code: str, title: str) -> Reason:
    """The reason of a rule of a package that declares only ``code`` and ``title``."""
    return Reason(
        code=code,
        title=title,
        violation=f'This does not hold: "{title}"',
        no_candidate=f"passes {code}",
        who="ask",
        cure="Ask the operators: the rule comes from a package of theirs, which does not say more.",
    )
