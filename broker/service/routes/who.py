"""The sender of a request, for clients that want to know what they may do."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import Response
from pydantic import BaseModel
from starlette.requests import Request

from broker.access.policies import KNOWN, Role
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.state import Who

router = guarded_router(tag="who")


class Me(BaseModel):
    """The identity behind the token.

    Attributes:
        subject: subject of the token, recorded as the editor of its changes.
        issuer: issuer of the token; ``local`` for the file of this machine.
        username: PanDA user whose tasks are the caller's own; null if unknown.
        roles: granted roles, each with its limits.
        expires_at: expiry of the token; null for never.
    """

    subject: str
    issuer: str
    username: str | None
    roles: dict[Role, list[str]]
    expires_at: datetime | None


@router.get("/whoami", response_model=Me)
@allow(KNOWN)
async def whoami(request: Request, who: Who) -> Response:
    """Get the identity behind the token of this request, and its roles."""
    if who is None:
        raise TypeError("the policy lets nobody in without a token")
    roles = {role: list(grant.paths) for role, grant in who.grants.items()}
    ends = None if who.expires_at_s == float("inf") else datetime.fromtimestamp(who.expires_at_s, UTC)
    me = Me(subject=who.subject, issuer=who.issuer, username=who.username, roles=roles, expires_at=ends)
    return answer(request, me)
