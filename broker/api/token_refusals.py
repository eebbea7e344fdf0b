"""What somebody is told whose token is missing, or is refused although a trusted issuer signed it. Pure."""

from __future__ import annotations

from broker.access.claims import Expected, Fault
from broker.api.problems import Problem

USED = (
    "token_used",
    "this token was used for a write before",
    "get a new token for each write, or have `reusable: true` set for its issuer in config/api.yaml",
)
_CLAIM = {"expiry_missing": "exp", "subject_missing": "sub", "identifier_missing": "jti"}


def told_of(fault: Fault, expected: Expected) -> tuple[str, str, str]:
    """Code, detail and remedy for a fault of the claims.

    Args:
        fault: what is wrong.
        expected: what the claims must be.
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
    """The refusal of somebody whose token is missing or bad.

    It is the same whatever is wrong with a token that nobody trusted has signed. Of one that is signed well, code,
    detail and remedy say what is wrong (RFC 6750, section 3.1).
    """
    told = "" if code == "unauthenticated" else f', error="invalid_token", error_description="{detail}"'
    headers = {"WWW-Authenticate": f'Bearer realm="gridbroker"{told}'}
    return Problem(401, code, detail, remedy, headers=headers)
