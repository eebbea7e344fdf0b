"""The policy of a route, and whether it lets somebody in. Every route declares one.

Roles, and who somebody is: the subject of a token with the roles that it grants.

Scopes of a token: names with paths that are compared component by component.

Source: WLCG common JWT profile 1.3, sections on scope-based authorisation: a path of a scope covers what is at it and
below it; ``/home`` does not cover ``/homely``. A path with ``..``, ``.``, an empty component or an escape is no path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

WHOLE = "/"
LONGEST_SCOPE = 4096


@dataclass(frozen=True)
class Scope:
    """One scope: ``name`` or ``name:/path``. Without a path it is for everything."""

    name: str
    path: str = WHOLE


@lru_cache(maxsize=1024)
def components(path: str) -> tuple[str, ...] | None:
    """The components of a path that begins with a slash; None for what is no plain path."""
    if not path.startswith("/") or any(mark in path for mark in ("%", "\\", "\0", "?", "#")):
        return None
    inner = path[1:].removesuffix("/")
    found = tuple(inner.split("/")) if inner else ()
    return None if any(one in ("", ".", "..") for one in found) else found


def covers(allowed: str, wanted: str) -> bool:
    """Whether the path ``allowed`` is that of ``wanted`` or above it; what is no path covers nothing."""
    above, below = components(allowed), components(wanted)
    return above is not None and below is not None and below[: len(above)] == above


def read_scopes(claim: object) -> tuple[Scope, ...]:
    """The scopes of a ``scope`` claim: a text with spaces, or a list of texts. What is malformed grants nothing."""
    if isinstance(claim, str):
        words = claim.split() if len(claim) <= LONGEST_SCOPE else []
    elif isinstance(claim, list) and all(isinstance(one, str) for one in claim):
        words = claim
    else:
        return ()
    found = []
    for word in words:
        name, separator, path = word.partition(":")
        if not separator:
            found.append(Scope(name))
        elif components(path) is not None:
            found.append(Scope(name, path))
    return tuple(found)


class Role(StrEnum):
    """What somebody may do; nobody has a role because of another one.

    Attributes:
        READER: read everything, names of users too.
        SUBMITTER: submit tasks, and act on the tasks of the own user.
        PILOT: take jobs, and report, at the queues that the role is limited to.
        OPERATOR: pins, pauses, canaries, sources, runs.
        TUNER: values of the tuning.
    """

    READER = "reader"
    SUBMITTER = "submitter"
    PILOT = "pilot"
    OPERATOR = "operator"
    TUNER = "tuner"


@dataclass(frozen=True)
class Grant:
    """One role of somebody.

    Attributes:
        role: the role.
        paths: what it is limited to, as paths of a scope: of the pilot its queues; ``("/",)`` is everything.
    """

    role: Role
    paths: tuple[str, ...] = ("/",)


@dataclass(frozen=True)
class Identity:
    """Somebody whose token was found good.

    Attributes:
        subject: the name of the subject: the editor of what it changes.
        issuer: of the token; ``local`` for the file of this machine.
        grants: the roles, by role.
        token: identifier of the token (``jti``); None where it has none.
        expires_at_s: when the token ends, in seconds since 1970.
        username: of PanDA, whose tasks are the subject's own; None where nothing says so.
        reusable: whether the token may be shown with any number of writes.
    """

    subject: str
    issuer: str
    grants: Mapping[Role, Grant] = field(default_factory=dict)
    token: str | None = None
    expires_at_s: float = float("inf")
    username: str | None = None
    reusable: bool = True

    def has(self, role: Role) -> bool:
        """Whether somebody has a role."""
        return role in self.grants

    @property
    def editor(self) -> str:
        """Who stands in the audit for what this identity changes."""
        whole = self.subject if self.issuer == LOCAL else f"{self.subject} ({self.issuer})"
        return whole[:LONGEST_EDITOR]


LONGEST_EDITOR = 128
LOCAL = "local"
"""The issuer of the token file of one machine."""


GROUP_CLAIMS = ("wlcg.groups", "groups")
"""Claims with the names of groups: of the WLCG profile, and of other issuers."""


class RoleRule(BaseModel):
    """One line of the map; it gives its role to a token that has any of what it names.

    Attributes:
        role: the role.
        scopes: names of scopes; the path of a scope limits the role to it.
        groups: names of groups, compared whole.
        subjects: subjects by name.
        paths: what the role is limited to when a group or subject gives it, as ``/QUEUE``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Role
    scopes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    paths: tuple[str, ...] = Field(default=("/",))


def grants_of(rules: Iterable[RoleRule], claims: Mapping[str, Any]) -> dict[Role, Grant]:
    """The roles that the claims of a token give."""
    paths: dict[Role, list[str]] = {}
    scopes = read_scopes(claims.get("scope"))
    groups = _groups(claims)
    for rule in rules:
        found = [scope.path for scope in scopes if scope.name in rule.scopes]
        if groups.intersection(rule.groups) or claims.get("sub") in rule.subjects:
            found += [path for path in rule.paths if components(path) is not None]
        if found:
            paths.setdefault(rule.role, []).extend(found)
    return {role: Grant(role, tuple(dict.fromkeys(found))) for role, found in paths.items()}


def _groups(claims: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    for name in GROUP_CLAIMS:
        value = claims.get(name)
        if isinstance(value, list):
            found.update(one for one in value if isinstance(one, str))
    return found


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
CLIENT_SUBMIT = Policy("client_submit", SUBMIT.roles, writes=True)
"""Submitting with panda-client, which shows one token with each of the three writes of one ``prun``."""
CLIENT_ACT = Policy("client_act", ACT_ON_TASKS.roles, writes=True)
"""Acting on tasks with panda-client; likewise."""
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
