"""Who a request is from, for clients that want to know what they may do."""

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
    """Who the token is of.

    Attributes:
        subject: of the token; the editor of what it changes.
        issuer: of the token; ``local`` for the file of this machine.
        username: of PanDA, whose tasks are one's own; null where nothing says so.
        roles: what one may do; of each what it is limited to.
        expires_at: when the token ends; null for never.
    """

    subject: str
    issuer: str
    username: str | None
    roles: dict[Role, list[str]]
    expires_at: datetime | None


@router.get("/whoami", response_model=Me)
@allow(KNOWN)
async def whoami(request: Request, who: Who) -> Response:
    """Who the token of this request is of, and what its roles are."""
    if who is None:
        raise TypeError("the policy lets nobody in without a token")
    roles = {role: list(grant.paths) for role, grant in who.grants.items()}
    ends = None if who.expires_at_s == float("inf") else datetime.fromtimestamp(who.expires_at_s, UTC)
    me = Me(subject=who.subject, issuer=who.issuer, username=who.username, roles=roles, expires_at=ends)
    return answer(request, me)
