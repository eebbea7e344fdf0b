"""Validation of the claims of a token. Pure; the signature has been verified elsewhere before.

Source: WLCG common JWT profile 1.3: ``exp``, ``aud``, ``iss``, ``sub`` and ``jti`` are required, ``wlcg.ver`` names the
profile; SciTokens: ``ver`` names the profile, ``jti`` may be missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

LEEWAY_S = 60.0
LONGEST_LIFE_S = 6 * 3600.0
LONGEST_NAME = 255

Fault = Literal[
    "not_an_object",
    "issuer",
    "audience",
    "expiry_missing",
    "expired",
    "lives_too_long",
    "not_yet_valid",
    "issued_later",
    "subject_missing",
    "identifier_missing",
]


@dataclass(frozen=True)
class Expected:
    """The required claims of a token.

    Attributes:
        issuer: its issuer, compared exactly.
        audiences: the accepted audiences, of which it must name one.
        identifier_required: whether ``jti`` is required.
        longest_life_s: largest time between ``iat`` (or now) and ``exp``.
    """

    issuer: str
    audiences: tuple[str, ...]
    identifier_required: bool = True
    longest_life_s: float = LONGEST_LIFE_S


def fault_of(claims: object, expected: Expected, now_s: float) -> Fault | None:
    """The first fault of the claims at ``now_s`` (seconds since 1970); None if they are valid."""
    if not isinstance(claims, Mapping):
        return "not_an_object"
    if claims.get("iss") != expected.issuer:
        return "issuer"
    if not _named_audiences(claims.get("aud")).intersection(expected.audiences):
        return "audience"
    fault = _fault_of_times(claims, expected, now_s)
    if fault is not None:
        return fault
    if not _is_name(claims.get("sub")):
        return "subject_missing"
    if expected.identifier_required and not _is_name(claims.get("jti")):
        return "identifier_missing"
    return None


def _fault_of_times(claims: Mapping[str, Any], expected: Expected, now_s: float) -> Fault | None:
    expires, begins, issued = (_seconds(claims.get(name)) for name in ("exp", "nbf", "iat"))
    if expires is None:
        return "expiry_missing"
    if now_s >= expires:
        return "expired"
    if ("nbf" in claims and begins is None) or (begins is not None and begins > now_s + LEEWAY_S):
        return "not_yet_valid"
    if ("iat" in claims and issued is None) or (issued is not None and issued > now_s + LEEWAY_S):
        return "issued_later"
    since_s = now_s if issued is None else issued
    return "lives_too_long" if expires - since_s > expected.longest_life_s + LEEWAY_S else None


def _named_audiences(claim: object) -> set[str]:
    if isinstance(claim, str):
        return {claim}
    return {audience for audience in claim if isinstance(audience, str)} if isinstance(claim, list) else set()


def _seconds(claim: object) -> float | None:
    if isinstance(claim, bool) or not isinstance(claim, int | float):
        return None
    try:
        seconds = float(claim)
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) else None


def _is_name(claim: object) -> bool:
    return isinstance(claim, str) and 0 < len(claim) <= LONGEST_NAME and claim.isprintable()
