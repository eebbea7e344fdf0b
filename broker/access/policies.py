"""The policy of a route, and whether it lets somebody in. Every route declares one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from broker.access.roles import Identity, Role
from broker.access.scopes import covers

Answer = Literal["allowed", "unauthenticated", "forbidden"]


@dataclass(frozen=True)
class Policy:
    """Who may use a route.

    Attributes:
        name: of the policy, for the documents.
        roles: any of these is enough; none: nobody needs a role.
        anonymous: ``always``, ``if_configured`` (as ``anonymous_read`` says) or ``never``.
        writes: whether the route changes something.
        once: a token with an identifier is good for one use of the route (WLCG token profile 1.3, ``jti``). Not so for
            machines that report all the time, whose requests are idempotent by themselves.
    """

    name: str
    roles: frozenset[Role] = frozenset()
    anonymous: Literal["always", "if_configured", "never"] = "never"
    writes: bool = False
    once: bool = False


_EVERYBODY = frozenset(Role)

OPEN = Policy("open", anonymous="always")
"""Health, and the description of the API."""
READ = Policy("read", frozenset({Role.READER, Role.SUBMITTER, Role.OPERATOR, Role.TUNER}), "if_configured")
"""What the grid decides; names of users are shown to those with a token only."""
READ_NAMES = Policy("read_names", frozenset({Role.READER, Role.SUBMITTER, Role.OPERATOR, Role.TUNER}))
"""What is about users by name."""
KNOWN = Policy("known", _EVERYBODY)
"""Anybody with a good token."""
FACTORY = Policy("factory", frozenset({Role.READER, Role.PILOT, Role.OPERATOR}), "if_configured")
"""What pilot factories look up."""
DECIDE = Policy("decide", frozenset({Role.READER, Role.SUBMITTER, Role.OPERATOR, Role.TUNER}))
"""Deciding without writing: it costs time, so nobody does it unnamed."""
SUBMIT = Policy("submit", frozenset({Role.SUBMITTER}), writes=True, once=True)
ACT_ON_TASKS = Policy("act_on_tasks", frozenset({Role.SUBMITTER, Role.OPERATOR}), writes=True, once=True)
"""Killing, retrying and the like: submitters on their own tasks, operators on all."""
PILOT = Policy("pilot", frozenset({Role.PILOT}), writes=True)
"""Jobs and reports of pilots: each request is idempotent by pilot and number, and a pilot has one token."""
SOURCE = Policy("source", frozenset({Role.OPERATOR}), writes=True)
"""Whole documents of a source: the same document again changes nothing."""
OPERATE = Policy("operate", frozenset({Role.OPERATOR}), writes=True, once=True)
TUNE = Policy("tune", frozenset({Role.TUNER}), writes=True, once=True)
TRY = Policy("try", frozenset({Role.OPERATOR, Role.TUNER}), writes=True, once=True)
"""Runs that decide stored cycles again: they cost minutes of a processor."""


def judge(policy: Policy, identity: Identity | None, *, anonymous_read: bool) -> Answer:
    """Whether ``policy`` lets somebody in; ``identity`` is None for somebody without a token."""
    if policy.anonymous == "always" or (policy.anonymous == "if_configured" and anonymous_read and identity is None):
        return "allowed"
    if identity is None:
        return "unauthenticated"
    if not policy.roles or any(identity.has(role) for role in policy.roles):
        return "allowed"
    return "forbidden"


def may_ask_for(identity: Identity, role: Role, path: str) -> bool:
    """Whether a role of somebody reaches what stands at ``path``, such as ``/QUEUE``."""
    grant = identity.grants.get(role)
    return grant is not None and any(covers(allowed, path) for allowed in grant.paths)
