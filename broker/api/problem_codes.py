"""The meaning and remedy of each problem code: the page to which ``type`` points (RFC 9457).

Codes that decisions also use (``broker.decisions.answers.known_reasons``) are explained there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import cleandoc
from typing import NamedTuple

from broker.api.problems import code_of_class
from broker.errors import BrokerError


class ProblemCode(NamedTuple):
    """A problem code: its meaning and remedy, in full sentences with Markdown backticks."""

    meaning: str
    cure: str


_BODY = "Send what the description of the API says, `/api/v1/openapi.json`."
_LATER = "Try again after the seconds of `Retry-After`."
_LOG = "Give the request id of the answer to the operators; the log of the service has the cause under it."
_RENEW = "Get a new token from the issuer."
_NAME = "See the nearest names in the answer, or the list that holds it."

PROBLEM_CODES: Mapping[str, ProblemCode] = {
    "bad_content_length": ProblemCode("The length that the request states is no number.", _BODY),
    "bad_cursor": ProblemCode("The place in the list is none that an answer gave.", "Begin with the first page."),
    "bad_field_value": ProblemCode("The field of a queue cannot have this value.", "See what the answer accepts."),
    "bad_gzip": ProblemCode("The body is not what its encoding says.", "Pack it with gzip again, or send it plain."),
    "bad_idempotency_key": ProblemCode("The `Idempotency-Key` cannot be used.", "Send a short one, such as a UUID."),
    "bad_if_match": ProblemCode("`If-Match` names no version of the tuning.", "Send the version that you read."),
    "bad_json": ProblemCode("The body is no JSON.", _BODY),
    "bad_request": ProblemCode("The request cannot be read.", _BODY),
    "body_too_large": ProblemCode("The body is larger than is accepted.", "Send it in parts."),
    "body_too_slow": ProblemCode("The body did not come in time.", "Send it again over a better connection."),
    "busy_deciding": ProblemCode("As many requests as may decide are deciding already.", _LATER),
    "client_disconnected": ProblemCode("The client left before the whole body had come.", "Send it again."),
    "database_busy": ProblemCode("All connections to the database are in use.", _LATER),
    "database_unavailable": ProblemCode("The database does not answer.", f"{_LATER} Operators: `broker doctor`."),
    "deciding_took_too_long": ProblemCode(
        "The decision was not made in the time that a request has.", "Ask for less, or use the command on the broker."
    ),
    "digest_differs": ProblemCode("The document is not the one whose digest was sent.", "Send it again."),
    "forbidden": ProblemCode("The token is good, but gives no right to do this.", "Ask the operators for the role."),
    "form_from_elsewhere": ProblemCode("The form was not made by this session.", "Open the page again and send it."),
    "headers_too_large": ProblemCode("The headers are larger than is accepted.", "Send fewer, or remove cookies."),
    "http_error": ProblemCode("The request cannot be answered as it was sent.", _BODY),
    "idempotency_key_reused": ProblemCode(
        "Another request was sent with this `Idempotency-Key`.", "Use a new key for a new request."
    ),
    "internal_error": ProblemCode("The service failed.", _LOG),
    "invalid_request": ProblemCode("A field or parameter is wrong.", f"See `errors` in the answer. {_BODY}"),
    "json_too_deep": ProblemCode("The JSON is nested more deeply than is accepted.", _BODY),
    "no_login": ProblemCode(
        "There is no login for panda-client here.", "Operators: name an issuer and its client in `config/api.yaml`."
    ),
    "login_code_used": ProblemCode(
        "The link was used, or is older than a minute.", "Log in at `/login` with the token of the file `api-token`."
    ),
    "login_failed": ProblemCode("The issuer did not say who you are.", "Log in again; else tell the operators."),
    "matchers_busy": ProblemCode("All that match jobs with pilots are busy.", _LATER),
    "method_not_allowed": ProblemCode("The address is not asked with this method.", _BODY),
    "no_form": ProblemCode("A form of the page was expected.", "Open the page and send its form."),
    "no_reason": ProblemCode("A change needs a reason.", "Say why, in a sentence."),
    "no_such_file": ProblemCode("The page has no such file.", "Load the page again."),
    "no_such_job": ProblemCode("No job has this number.", "See `/tasks`, which lists jobs with their tasks."),
    "no_such_page": ProblemCode("There is nothing at this address.", "Begin at the overview."),
    "no_such_queue": ProblemCode("No queue has this name.", "See `/queues`."),
    "no_such_route": ProblemCode("The API has nothing at this address.", _BODY),
    "no_such_run": ProblemCode("No run has this number.", "Start it again: results are kept for some days."),
    "not_previewed": ProblemCode(
        "A change is to keep to a number of jobs that move, and its value was not previewed recently.",
        "Preview this value on the page of its key, then set it.",
    ),
    "nothing_found": ProblemCode("Nothing on record has this name or number.", _NAME),
    "odd_path": ProblemCode("The address holds characters that none of ours has.", "See how names stand in a path."),
    "outcome_unknown": ProblemCode(
        "The first request with this `Idempotency-Key` ended without an answer.", "See whether it did what it was for."
    ),
    "request_under_way": ProblemCode("The first request with this `Idempotency-Key` still goes on.", _LATER),
    "statement_timeout": ProblemCode("The database took too long for the question.", f"{_LATER} Ask for less."),
    "stopping": ProblemCode("The service is stopping.", _LATER),
    "taken_in_the_future": ProblemCode("The document is of a later time than now.", "See whether the clock is right."),
    "token_expired": ProblemCode("The token has expired.", _RENEW),
    "token_incomplete": ProblemCode("The token lacks a claim.", "Ask the issuer for a full token."),
    "token_lives_too_long": ProblemCode("The token lives longer than is accepted.", "Ask for one with a shorter life."),
    "token_not_yet_valid": ProblemCode("The token is not valid yet.", "Wait, or see whether the clocks are right."),
    "token_used": ProblemCode(
        "The token was used for a write before.", f"{_RENEW} Operators may set `reusable: true` for the issuer."
    ),
    "token_wrong_audience": ProblemCode("The token is for another service.", "Ask for one with the right audience."),
    "too_many_jobs_move": ProblemCode(
        "The preview of a change moves more jobs than whoever makes it allows.",
        "Choose a value that changes less, or let more jobs move.",
    ),
    "too_many_listeners": ProblemCode("As many as may listen to events do so already.", _LATER),
    "too_many_requests": ProblemCode("More requests came than one client may send.", f"{_LATER} Send fewer."),
    "too_many_runs": ProblemCode("As many runs as may wait do so already.", "Try again when one has ended."),
    "unauthenticated": ProblemCode(
        "The request needs a token that a trusted issuer signed.", "Send `Authorization: Bearer TOKEN`, or log in."
    ),
    "unknown_content_encoding": ProblemCode("The body is packed in an unknown way.", "Use gzip, or send it plain."),
    "unknown_field": ProblemCode("`fields` names a field that the answer has not.", _BODY),
    "unknown_host": ProblemCode(
        "The service is not called by this name.", "Operators list its names in `hosts` of `config/api.yaml`."
    ),
    "unknown_key": ProblemCode("The tuning has no such key.", f"{_NAME} `/tuning` has all keys."),
    "unknown_parameter": ProblemCode("Nothing reads a parameter of this name.", _NAME),
    "unknown_value": ProblemCode("Nothing has the value that was asked for.", _NAME),
    "version_conflict": ProblemCode(
        "Somebody changed the tuning since you read it.", "Read it again, and send the change for the new version."
    ),
}
"""Every code that a problem is created with, and the most frequent codes of broker errors."""

_OF_AN_ERROR = f"The answer itself says what was found, where, and what to do. {_LOG}"


def problem_code(code: str) -> ProblemCode | None:
    """Return the meaning of a problem code, for a broker error from its class; None if no problem has this code."""
    if code in PROBLEM_CODES:
        return PROBLEM_CODES[code]
    error_class = next((candidate for candidate in error_classes() if code_of_class(candidate) == code), None)
    return (
        None if error_class is None else ProblemCode(cleandoc(error_class.__doc__ or code).split("\n")[0], _OF_AN_ERROR)
    )


def error_classes() -> Iterator[type[BrokerError]]:
    """Yield the broker's loaded error classes; a class that was raised is loaded."""
    waiting = [BrokerError]
    while waiting:
        error_class = waiting.pop()
        yield error_class
        waiting += error_class.__subclasses__()
