"""Error answers of the API: ``application/problem+json`` (RFC 9457), with the reason code. Pure.

A body never says more than the code, a sentence and a remedy: no traceback, no statement, no address. The answers to a
missing token, and to one refused although a trusted issuer signed it, are here too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import psycopg
from pydantic import BaseModel, Field
from sqlalchemy import exc as sa_exc
from starlette.responses import JSONResponse

from broker.access.claims import Expected, Fault
from broker.errors import FAILED, NOT_FOUND, REFUSED, WRONG_USAGE, BrokerError
from broker.gdpconfig.publish import VersionConflictError
from broker.redaction import redact
from broker.store.connection.errors import DatabaseUnavailable
from broker.store.connection.transient import TRANSIENT_ERRORS

MEDIA_TYPE = "application/problem+json"
LONGEST_TEXT = 1000
RETRY_AFTER_S = 1
UNKNOWN_VALUE = "unknown_value"
"""Code for a filter with an unknown value; its class is not imported here because it takes long to load."""

_STATUS = {FAILED: 500, WRONG_USAGE: 400, REFUSED: 409, NOT_FOUND: 404}
_EXIT_STATUS = {400: WRONG_USAGE, 404: NOT_FOUND, 405: WRONG_USAGE, 409: REFUSED, 412: REFUSED, 422: WRONG_USAGE}
_EXIT_STATUS |= {421: REFUSED, 401: REFUSED, 403: REFUSED, 413: WRONG_USAGE, 415: WRONG_USAGE, 429: REFUSED}


class FieldProblem(BaseModel):
    """An invalid field of a request.

    Attributes:
        where: the field, such as ``query.limit`` or ``body.reason``.
        what: what is wrong with it.
    """

    where: str
    what: str


class ProblemBody(BaseModel):
    """A problem as defined by RFC 9457, with our own fields.

    Attributes:
        type: page that explains the code.
        title: the reason code.
        status: the HTTP status.
        detail: description of the problem and its place.
        code: the reason code.
        remedy: what to do; null if there is nothing.
        exit_status: exit status of a command with this problem.
        request_id: identifier of the request, also in the log.
        errors: problems by field.
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
    """Return the reason code of an error: its own, or that of its class."""
    own_code = getattr(error, "code", None)
    return own_code if isinstance(own_code, str) and own_code else code_of_class(type(error))


def code_of_class(error: type[BrokerError]) -> str:
    """Return the reason code that an error class states, or its name in words joined by ``_``."""
    own_code = getattr(error, "code", None)
    if isinstance(own_code, str) and own_code:
        return own_code
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", error.__name__.removesuffix("Error"))
    return "_".join(word.lower() for word in words)


def problem_of(error: Exception) -> Problem:
    """Return the problem for one of our errors; an unexpected error reveals nothing about itself."""
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
    """Return the answer for a problem."""
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
        "errors": [field.model_dump() for field in problem.errors],
    }
    headers = {"Cache-Control": "no-store", **problem.headers}
    return JSONResponse(body, problem.status, headers, MEDIA_TYPE)


USED = (
    "token_used",
    "this token was used for a write before",
    "get a new token for each write, or have `reusable: true` set for its issuer in config/api.yaml",
)
_CLAIM = {"expiry_missing": "exp", "subject_missing": "sub", "identifier_missing": "jti"}


def token_fault_details(fault: Fault, expected: Expected) -> tuple[str, str, str]:
    """Return code, detail and remedy for a fault in the claims.

    Args:
        fault: the fault.
        expected: the expected claims.
    """
    if fault in _CLAIM:
        return "token_incomplete", f"the token lacks a usable claim {_CLAIM[fault]}", "ask the issuer for a full token"
    if fault == "audience":
        remedy = f"ask for a token with the audience {' or '.join(expected.audiences)}"
        return "token_wrong_audience", "the token is for another audience", remedy
    if fault == "expired":
        return "token_expired", "the token has expired", "get a new one"
    if fault in ("not_yet_valid", "issued_later"):
        return "token_not_yet_valid", "the token is not valid yet", "wait, or see whether the clocks are right"
    if fault == "lives_too_long":
        limit = f"{expected.longest_life_s:g} s"
        return "token_lives_too_long", f"the token lives longer than {limit}", f"ask for one that lives {limit} at most"
    return "unauthenticated", "a valid token is needed", ""


def unauthenticated(
    code: str = "unauthenticated", detail: str = "a valid token is needed", remedy: str = ""
) -> Problem:
    """Return the refusal for a missing or bad token.

    It is the same for every token that no trusted issuer has signed. For a well-signed token, code, detail and remedy
    say what is wrong (RFC 6750, section 3.1).
    """
    error_parameters = "" if code == "unauthenticated" else f', error="invalid_token", error_description="{detail}"'
    headers = {"WWW-Authenticate": f'Bearer realm="gridbroker"{error_parameters}'}
    return Problem(401, code, detail, remedy, headers=headers)
