"""A retry rule as a user writes it, checked before it is added or tested."""

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
    """The retry rule could not act as written."""

    exit_status = WRONG_USAGE
    http_status = 400


class NewRule(BaseModel):
    """A retry rule as written: the errors that it matches, and its action.

    Attributes:
        source: source of the error: ``pilotErrorCode``, ``exeErrorCode``, ``ddmErrorCode``, ``transExitCode`` and so
            on.
        code: code of the error.
        action: action of the rule.
        diag: regular expression that must match the message from its start.
        parameters: parameters of the action, ``name=value`` joined by ``&``, as in PanDA's tables.
        architecture: CmtConfig of the jobs that it applies to; any if omitted.
        release: software release of the jobs that it applies to; any if omitted.
        work_queue: work queue of the jobs that it applies to; any if omitted.
        active: false: the action is only recorded.
        expires: expiry of the rule.
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
        """Build the rule.

        Raises:
            WrongRule: the source, action, code, pattern or a parameter cannot be used.
        """
        source = _named(self.source, tuple(SOURCES), "source")
        action = next(one for one in ACTIONS if one == _named(self.action, ACTIONS, "action"))
        if self.code == 0:
            raise WrongRule("0 is no error code", "code", "write the code of an error")
        parameters = {**OWN_DEFAULTS.get(action, {}), **self._parameters(action)}
        rule = RetryRule(
            "broker", number, source, self.code, action, self.active, self.diag or None, parameters,
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
        parameters = read_parameters(self.parameters) if self.parameters else {}
        if self.parameters and not parameters:
            raise WrongRule(f"not name=value: {self.parameters[:80]}", "parameters", "write name=value&name=value")
        for name, value in parameters.items():
            pattern = PARAMETERS[action].get(name)
            if pattern is None:
                known = ", ".join(PARAMETERS[action]) or "none"
                raise WrongRule(f"{action} has no parameter {name[:40]}", "parameters", f"it has: {known}")
            if re.fullmatch(pattern, value) is None:
                raise WrongRule(
                    f"{name}={value[:40]} cannot be used", "parameters", "see docs/how-to/retry-failed-jobs.md"
                )
        steps = [int(one) for one in parameters.get("steps", "").split(",") if one]
        if steps != sorted(set(steps)):
            raise WrongRule("the attempts of steps do not rise", "parameters", "write for example steps=2,4,7")
        return parameters


def _named(name: str, known: Sequence[str], what: str) -> str:
    exact = {one.lower(): one for one in known}.get(name.lower())
    if exact is None:
        near = nearest(name, known)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
        raise WrongRule(f"there is no {what} {name[:64]}", what, hint)
    return exact
