"""A retry rule as somebody writes it, checked before it is added or asked about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from broker.errors import WRONG_USAGE, BrokerError, nearest
from broker.retries.model.retry_rules import (
    ACTIONS,
    OWN_DEFAULTS,
    PARAMETERS,
    SOURCES,
    Action,
    JobScope,
    RetryRule,
    read_parameters,
)

MOST_ATTEMPTS = 32_767


class WrongRule(BrokerError):
    """A retry rule that could not act as it is written."""

    exit_status = WRONG_USAGE
    http_status = 400


class NewRule(BaseModel):
    """A retry rule as it is written: what errors it is for, and what it does.

    Attributes:
        source: of the error: ``pilotErrorCode``, ``exeErrorCode``, ``ddmErrorCode``, ``transExitCode`` and so on.
        code: of the error.
        action: what is done.
        diag: regular expression that the message must match from its start.
        parameters: of the action, ``name=value`` with ``&`` between them, as in PanDA's tables.
        architecture, release, work_queue: the jobs that it is for; any without.
        active: false: what it would do is only recorded.
        expires: until when it counts.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    source: Annotated[str, Field(max_length=64)]
    code: Annotated[int, Field(ge=-(2**31), le=2**31)]
    action: Annotated[str, Field(max_length=64)]
    diag: Annotated[str | None, Field(max_length=256, pattern=r"^[^\x00]*$")] = None
    parameters: Annotated[str | None, Field(max_length=256)] = None
    architecture: Annotated[str | None, Field(max_length=256, pattern=r"^[^\x00]*$")] = None
    release: Annotated[str | None, Field(max_length=64, pattern=r"^[^\x00]*$")] = None
    work_queue: Annotated[int | None, Field(ge=1, le=2**31 - 1)] = None
    active: bool = False
    expires: datetime | None = None

    def rule(self, number: int = 0) -> RetryRule:
        """The rule that is meant.

        Raises:
            WrongRule: source, action, pattern or a parameter is none that could be used.
        """
        source = _named(self.source, tuple(SOURCES), "source")
        action = next(one for one in ACTIONS if one == _named(self.action, ACTIONS, "action"))
        if self.code == 0:
            raise WrongRule("0 is no error code", "code", "write the code of an error")
        given = {**OWN_DEFAULTS.get(action, {}), **self._parameters(action)}
        rule = RetryRule(
            "broker", number, source, self.code, action, self.active, self.diag or None, given,
            JobScope(self.release or None, self.architecture or None, self.work_queue),
        )  # fmt: skip
        if rule.fault is not None:
            raise WrongRule(rule.fault, "rule", "correct it; broker retry-rule add --help says what each part is")
        if rule.most_attempts is not None and rule.most_attempts > MOST_ATTEMPTS:
            raise WrongRule(
                f"maxAttempt={rule.most_attempts} is too many", "parameters", f"write at most {MOST_ATTEMPTS}"
            )
        return rule

    def _parameters(self, action: Action) -> dict[str, str]:
        found = read_parameters(self.parameters) if self.parameters else {}
        if self.parameters and not found:
            raise WrongRule(f"not name=value: {self.parameters[:80]}", "parameters", "write name=value&name=value")
        for name, value in found.items():
            pattern = PARAMETERS[action].get(name)
            if pattern is None:
                known = ", ".join(PARAMETERS[action]) or "none"
                raise WrongRule(f"{action} has no parameter {name[:40]}", "parameters", f"it has: {known}")
            if re.fullmatch(pattern, value) is None:
                raise WrongRule(
                    f"{name}={value[:40]} cannot be used", "parameters", "see docs/how-to/retry-failed-jobs.md"
                )
        steps = [int(one) for one in found.get("steps", "").split(",") if one]
        if steps != sorted(set(steps)):
            raise WrongRule("the attempts of steps do not rise", "parameters", "write for example steps=2,4,7")
        return found


def _named(given: str, known: Sequence[str], what: str) -> str:
    exact = {one.lower(): one for one in known}.get(given.lower())
    if exact is None:
        near = nearest(given, known)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
        raise WrongRule(f"there is no {what} {given[:64]}", what, hint)
    return exact
