"""Identities of callers: pilots with the role for it, users for their own jobs, or nobody known.

Source: PanDA server, roles of pilots: production and pilot.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from broker.access import policies
from broker.access.policies import Role, covers

NO_IDENTITY = "SSL secure connection is required"
NO_ROLE = "no production/pilot role in VOMS FQANs or non pilot owner"
OTHER_QUEUE = "the token is for another queue"


@dataclass(frozen=True)
class Identity:
    """The identity of a caller.

    Attributes:
        name: name of the user; without the role of pilots, only jobs of this user are given.
        has_role: whether it may take anybody's jobs, and report.
        paths: the queues that it may act for, as paths of a scope; ``("/",)``: all.
    """

    name: str
    has_role: bool = True
    paths: tuple[str, ...] = ("/",)

    def may_speak_for(self, queue: str | None) -> bool:
        """Whether it may ask or report at a queue."""
        return queue is None or any(covers(path, f"/{queue}") for path in self.paths)


class TooManyRequests(Exception):
    """Somebody asks more often than the service allows.

    Attributes:
        wait_s: seconds until the next request is taken.
    """

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"too many requests; the next one is taken in {wait_s:g} s")
        self.wait_s = wait_s


Identify = Callable[[HTTPConnection], Awaitable[Identity | None]]
"""Identifies a caller; None: nobody that may be let in. It may raise :class:`TooManyRequests`."""


async def anybody(connection: HTTPConnection) -> Identity | None:
    """Trust everybody who reaches the port."""
    return Identity("local")


def of_token(identity: policies.Identity) -> Identity | None:
    """The identity behind a token: a pilot, or a user who may submit; anybody else is nobody here."""
    grant = identity.grants.get(Role.PILOT)
    name = identity.username or identity.subject
    if grant is not None:
        return Identity(name, True, grant.paths)
    return Identity(name, has_role=False) if identity.has(Role.SUBMITTER) else None
