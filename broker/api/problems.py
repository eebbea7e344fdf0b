"""Answers that are no answers: ``application/problem+json`` (RFC 9457), with the code of the reason.

A body never says more than the code, a sentence and what to do: no traceback, no statement, no address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import psycopg
from pydantic import BaseModel, Field
from sqlalchemy import exc as sa_exc
from starlette.responses import JSONResponse

from broker.errors import FAILED, NOT_FOUND, REFUSED, WRONG_USAGE, BrokerError
from broker.gdpconfig.publish import VersionConflictError
from broker.redaction import redact
from broker.store.connection.errors import DatabaseUnavailable
from broker.store.connection.transient import TRANSIENT_ERRORS

MEDIA_TYPE = "application/problem+json"
LONGEST_TEXT = 1000
RETRY_AFTER_S = 1
UNKNOWN_VALUE = "unknown_value"
"""Of a filter whose value nothing has; its class is not imported here, as it takes long to load."""

_STATUS = {FAILED: 500, WRONG_USAGE: 400, REFUSED: 409, NOT_FOUND: 404}
_EXIT_STATUS = {400: WRONG_USAGE, 404: NOT_FOUND, 405: WRONG_USAGE, 409: REFUSED, 412: REFUSED, 422: WRONG_USAGE}
_EXIT_STATUS |= {421: REFUSED, 401: REFUSED, 403: REFUSED, 413: WRONG_USAGE, 415: WRONG_USAGE, 429: REFUSED}


class FieldProblem(BaseModel):
    """One field of a request that is not as it must be.

    Attributes:
        where: the field, as ``query.limit`` or ``body.reason``.
        what: what is wrong with it.
    """

    where: str
    what: str


class ProblemBody(BaseModel):
    """A problem, as RFC 9457 has it, with fields of ours.

    Attributes:
        type: the page that says what the code means.
        title: the reason code.
        status: the HTTP status.
        detail: what was found, and where.
        code: the reason code.
        remedy: what to do; null where there is nothing.
        exit_status: of the command that ends so.
        request_id: also in the log.
        errors: field by field.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    remedy: str | None = None
    exit_status: int
    request_id: str | None = None
    errors: list[FieldProblem] = Field(default_factory=list)


class Problem(Exception):
    """Ends a request with a problem.

    Attributes:
        status: the HTTP status.
        code: the reason code.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str = "",
        remedy: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        errors: list[FieldProblem] | None = None,
    ) -> None:
        super().__init__(status, code, detail)
        self.status, self.code, self.detail, self.remedy = status, code, detail, remedy
        self.headers, self.errors = dict(headers or {}), errors or []


def code_of(error: BrokerError) -> str:
    """The reason code of an error: its own, or that of its class."""
    own = getattr(error, "code", None)
    return own if isinstance(own, str) and own else code_of_class(type(error))


def code_of_class(error: type[BrokerError]) -> str:
    """The reason code that a class of errors states, or its name in words joined by ``_``."""
    own = getattr(error, "code", None)
    if isinstance(own, str) and own:
        return own
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", error.__name__.removesuffix("Error"))
    return "_".join(word.lower() for word in words)


def problem_of(error: Exception) -> Problem:
    """The problem that an error of ours amounts to; one that nobody expected says nothing about itself."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, VersionConflictError):
        return Problem(412, "version_conflict", error.what, error.remedy)
    if isinstance(error, BrokerError) and code_of(error) == UNKNOWN_VALUE:
        return Problem(422, UNKNOWN_VALUE, error.what, error.remedy)
    if isinstance(error, DatabaseUnavailable):
        return _later("database_unavailable", "the database does not answer")
    if isinstance(error, BrokerError):
        of_class = 404 if isinstance(error, LookupError) else _STATUS.get(error.exit_status, 500)
        status = int(getattr(error, "http_status", of_class))
        detail = "; ".join(part for part in (error.what, error.where) if part)
        return Problem(status, code_of(error), detail, error.remedy)
    if isinstance(getattr(error, "orig", error), psycopg.errors.QueryCanceled):
        return _later("statement_timeout", "the database took too long for this question")
    if isinstance(error, sa_exc.TimeoutError):
        return _later("database_busy", "all connections to the database are in use")
    if isinstance(error, TRANSIENT_ERRORS):
        return _later("database_unavailable", "the database does not answer")
    return Problem(500, "internal_error", "the request failed", "report it with its request id")


def _later(code: str, detail: str) -> Problem:
    return Problem(503, code, detail, "try again later", headers={"Retry-After": str(RETRY_AFTER_S)})


def response_of(problem: Problem, request_id: str | None) -> JSONResponse:
    """The answer that says a problem."""
    detail = redact(problem.detail)[:LONGEST_TEXT]
    body: dict[str, Any] = {
        "type": f"/reasons/{problem.code}",
        "title": problem.code.replace("_", " "),
        "status": problem.status,
        "detail": detail,
        "code": problem.code,
        "remedy": redact(problem.remedy)[:LONGEST_TEXT] or None,
        "exit_status": _EXIT_STATUS.get(problem.status, FAILED),
        "request_id": request_id,
        "errors": [one.model_dump() for one in problem.errors],
    }
    headers = {"Cache-Control": "no-store", **problem.headers}
    return JSONResponse(body, problem.status, headers, MEDIA_TYPE)
