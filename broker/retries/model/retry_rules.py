"""Retry rules, and which of them apply to a failed job. Pure.

Source: panda-server, ``taskbuffer/retryModule.py``. Differences from it: numbers of attempts are compared as
numbers; of rules with equal scope that limit retries, ``no_retry`` is the stricter; passive rules do not stop the rules
of the job's next error; rules of every source apply, and an unusable rule says why.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, get_args

Action = Literal[
    "no_retry", "limit_retry", "increase_memory", "increase_memory_xtimes", "increase_cputime", "reduce_input_per_job"
]
ACTIONS: tuple[Action, ...] = get_args(Action)
#: Actions for which only the first rule counts, in the order in which PanDA looks for them.
_FIRST_COUNTS: tuple[Action, ...] = (
    "increase_memory", "increase_memory_xtimes", "increase_cputime", "reduce_input_per_job",
)  # fmt: skip
_LIMITS: tuple[Action, ...] = ("limit_retry", "no_retry")
#: Columns of codes, in the order in which PanDA checks a failed job's errors. A transExitCode has no message.
SOURCES = {
    "pilotErrorCode": ("piloterrorcode", "piloterrordiag"),
    "exeErrorCode": ("exeerrorcode", "exeerrordiag"),
    "ddmErrorCode": ("ddmerrorcode", "ddmerrordiag"),
    "transExitCode": ("transexitcode", None),
    "taskBufferErrorCode": ("taskbuffererrorcode", "taskbuffererrordiag"),
    "jobDispatcherErrorCode": ("jobdispatchererrorcode", "jobdispatchererrordiag"),
    "supErrorCode": ("superrorcode", "superrordiag"),
    "brokerageErrorCode": ("brokerageerrorcode", "brokerageerrordiag"),
}
SYSTEM = "system"
#: Sources that the classification of errors checks, in order.
_CLASSIFIED = (
    "pilotErrorCode", "exeErrorCode", "supErrorCode", "ddmErrorCode", "brokerageErrorCode", "jobDispatcherErrorCode",
    "taskBufferErrorCode",
)  # fmt: skip
#: Parameters that an action takes; ``margin``, ``times`` and ``jobs`` are ours.
PARAMETERS: Mapping[Action, Mapping[str, str]] = {
    "no_retry": {},
    "limit_retry": {"maxAttempt": r"[1-9]\d{0,4}"},
    "increase_memory": {"margin": r"[1-9](\.\d{1,3})?", "times": r"[1-9]\d?"},
    "increase_memory_xtimes": {"times": r"[1-9]\d?"},
    "increase_cputime": {},
    "reduce_input_per_job": {
        "excluded_rules": r"\w+(,\w+)*", "steps": r"\d{1,4},\d{1,4},\d{1,4}", "jobs": r"[1-9]\d{0,3}",
    },
}  # fmt: skip
#: Default parameters of our own rules: memory is raised by what was measured, and not without limit; input is not
#: reduced because of a single job.
OWN_DEFAULTS: Mapping[Action, Mapping[str, str]] = {
    "increase_memory": {"margin": "1.1", "times": "2"},
    "increase_memory_xtimes": {"times": "2"},
    "reduce_input_per_job": {"jobs": "3"},
}


@dataclass(frozen=True)
class JobError:
    """One error of a job: source as rules name it (``pilotErrorCode``), code, and message."""

    source: str
    code: int
    diag: str = ""


@dataclass(frozen=True)
class JobScope:
    """AtlasRelease, cmtConfig and work queue of a job, or of the jobs that a rule covers, where None means any."""

    release: str | None = None
    architecture: str | None = None
    workqueue_id: int | None = None

    @property
    def size(self) -> int:
        """How many of the three are set."""
        return sum(map(bool, vars(self).values()))

    def covers(self, job: JobScope) -> bool:
        """Whether a job has the release, architecture and work queue that are set here."""
        return all(value == getattr(job, name) for name, value in vars(self).items() if value)


@dataclass(frozen=True)
class RetryRule:
    """One rule: a row of RETRYERRORS with its action, or one of our own.

    Attributes:
        origin: where the rule is stored, ``panda`` or ``broker``.
        rule_id: its number there.
        source, code: of the errors that it covers.
        action: what it does.
        active: if false, the rule is passive: what it would do is only recorded.
        diag: regular expression that the message must match from its start; None: any message.
        parameters: of the action.
        scope: the jobs that it covers.
    """

    origin: Literal["panda", "broker"]
    rule_id: int
    source: str
    code: int
    action: Action
    active: bool
    diag: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    scope: JobScope = JobScope()

    @property
    def name(self) -> str:
        """The name of the rule in records, such as ``panda:12``."""
        return f"{self.origin}:{self.rule_id}"

    @property
    def most_attempts(self) -> int | None:
        """The most attempts of a file: 0 for ``no_retry``; None if the rule sets no usable number."""
        if self.action == "no_retry":
            return 0
        maximum = self.parameters.get("maxAttempt", "")
        return int(maximum) if re.fullmatch(r"\s*\d{1,9}\s*", maximum) else None

    @property
    def fault(self) -> str | None:
        """Why the rule cannot act as it is; None if it can."""
        if self.source not in SOURCES:
            return f"no job has errors of the source {self.source}"
        if self.diag and _pattern(self.diag) is None:
            return f"its pattern is no regular expression: {self.diag}"
        if self.source == "transExitCode" and self.diag and not _matches(self.diag, ""):
            return "exit codes have no message, so its pattern never matches"
        if self.action == "limit_retry" and self.most_attempts is None:
            return "limit_retry needs the parameter maxAttempt, a number"
        return None


@dataclass(frozen=True)
class ErrorRule:
    """A row of ERROR_CLASSIFICATION: the class of errors with this source, code and message."""

    rule_id: int
    source: str
    code: int
    diag: str
    error_class: str
    active: bool


@dataclass(frozen=True)
class Judgement:
    """A rule that applies to an error of a job."""

    rule: RetryRule
    error: JobError


def read_parameters(text: str | None) -> dict[str, str]:
    """Parse parameters as PanDA does: one piece that is not ``k=v`` makes all of them unusable.

    >>> read_parameters("maxAttempt=5&steps=2,4,7")
    {'maxAttempt': '5', 'steps': '2,4,7'}
    >>> read_parameters("5")
    {}
    """
    pairs = [piece.split("=") for piece in (text or "").split("&")]
    return {pair[0]: pair[1] for pair in pairs} if all(len(pair) == 2 for pair in pairs) else {}


def errors_of(row: Mapping[str, object]) -> tuple[JobError, ...]:
    """The errors in a failed job's row, in the order of :data:`SOURCES`; zero or no number is no error."""
    errors = []
    for source, (column, message) in SOURCES.items():
        code = str(row.get(column) or "").strip()
        if re.fullmatch(r"-?\d{1,18}", code) and int(code) != 0:
            errors.append(JobError(source, int(code), "" if message is None else str(row.get(message) or "")))
    return tuple(errors)


def judge(
    rules: Mapping[tuple[str, int], Sequence[RetryRule]], errors: Iterable[JobError], job: JobScope
) -> list[Judgement]:
    """The rules that apply to a failed job, for its errors up to the first one with an active rule.

    Args:
        rules: by source and code, in their order; see :func:`by_error`.
        errors: of the job, in their order.
        job: scope of the job, which limits the rules further.
    """
    judgements: list[Judgement] = []
    for error in errors:
        matches = [Judgement(rule, error) for rule in applicable(rules.get((error.source, error.code), ()), error, job)]
        judgements += matches
        if any(match.rule.active for match in matches):
            break
    return judgements


def by_error(rules: Iterable[RetryRule]) -> dict[tuple[str, int], list[RetryRule]]:
    """Rules by source and code: PanDA's first, each by its number."""
    groups: dict[tuple[str, int], list[RetryRule]] = {}
    for rule in sorted(rules, key=lambda one: (one.origin != "panda", one.rule_id)):
        groups.setdefault((rule.source, rule.code), []).append(rule)
    return groups


def applicable(rules: Sequence[RetryRule], error: JobError, job: JobScope) -> list[RetryRule]:
    """The rules of an error that apply: at most one for each kind of change, and one limit on retries."""
    fitting = [rule for rule in rules if rule.fault is None and fits(rule, error, job)]
    first_rules = [next((rule for rule in fitting if rule.action == action), None) for action in _FIRST_COUNTS]
    limits = [rule for rule in fitting if rule.action in _LIMITS]
    # the narrowest scope, then the fewest attempts, then the first
    first_rules.append(min(limits, key=lambda rule: (-rule.scope.size, rule.most_attempts or 0), default=None))
    return [rule for rule in first_rules if rule is not None]


def fits(rule: RetryRule, error: JobError, job: JobScope) -> bool:
    """Whether an error and its job match the message, architecture, release and work queue that the rule names."""
    return rule.scope.covers(job) and not (rule.diag and not _matches(rule.diag, error.diag))


def classify(rules: Iterable[ErrorRule], errors: Iterable[JobError]) -> ErrorRule | None:
    """The first rule of the first error that has one: same source and code, and a matching message."""
    ordered = sorted(rules, key=lambda one: one.rule_id)
    by_source = {error.source: error for error in errors}
    for error in (by_source[source] for source in _CLASSIFIED if source in by_source):
        for rule in ordered:
            same = (rule.source, rule.code) == (error.source, error.code)
            if same and rule.code and rule.diag and _matches(rule.diag, error.diag):
                return rule
    return None


def rules_version(rules: Iterable[RetryRule]) -> str:
    """A short hash of rules: the same for equal rules, whatever their order."""
    texts = sorted(json.dumps([*map(str, (one.name, one.source, one.code, one.action, one.active, one.diag)),
                               sorted(one.parameters.items()), one.scope.architecture, one.scope.release,
                               one.scope.workqueue_id])
                   for one in rules)  # fmt: skip
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text, re.DOTALL)
    except (re.error, RecursionError, OverflowError):
        return None


def _matches(pattern: str, message: str) -> bool:
    """Whether a message matches from its start, across its lines; an invalid pattern matches nothing."""
    compiled = _pattern(pattern)
    return compiled is not None and compiled.match(message) is not None
