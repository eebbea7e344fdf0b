"""Who is admitted to a route: scopes of tokens, roles that they grant, and the policy that every route declares.

A :class:`Scope` is a name with a path, compared component by component; an :class:`Identity` is the subject of a token
with its roles; :func:`judge` decides whether a :class:`Policy` admits it.

Source: WLCG common JWT profile 1.3, sections on scope-based authorisation: the path of a scope covers itself and
everything below it; ``/home`` does not cover ``/homely``. A path with ``..``, ``.``, an empty component or an escape is
invalid.
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
    """One scope: ``name`` or ``name:/path``. Without a path it covers everything."""

    name: str
    path: str = WHOLE


@lru_cache(maxsize=1024)
def components(path: str) -> tuple[str, ...] | None:
    """The components of a path that begins with a slash; None if it is not a plain path."""
    if not path.startswith("/") or any(mark in path for mark in ("%", "\\", "\0", "?", "#")):
        return None
    inner = path[1:].removesuffix("/")
    parts = tuple(inner.split("/")) if inner else ()
    return None if any(part in ("", ".", "..") for part in parts) else parts


def covers(allowed: str, wanted: str) -> bool:
    """Whether the path ``allowed`` equals ``wanted`` or is above it; an invalid path covers nothing."""
    above, below = components(allowed), components(wanted)
    return above is not None and below is not None and below[: len(above)] == above


def read_scopes(claim: object) -> tuple[Scope, ...]:
    """The scopes of a ``scope`` claim: a text with spaces, or a list of texts. Malformed scopes grant nothing."""
    if isinstance(claim, str):
        words = claim.split() if len(claim) <= LONGEST_SCOPE else []
    elif isinstance(claim, list) and all(isinstance(item, str) for item in claim):
        words = claim
    else:
        return ()
    scopes = []
    for word in words:
        name, separator, path = word.partition(":")
        if not separator:
            scopes.append(Scope(name))
        elif components(path) is not None:
            scopes.append(Scope(name, path))
    return tuple(scopes)


class Role(StrEnum):
    """A role of a caller; no role includes another.

    Attributes:
        READER: read everything, including names of users.
        SUBMITTER: submit tasks, and act on the user's own tasks.
        PILOT: take jobs and report, at the queues to which the role is limited.
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
    """One role of an identity.

    Attributes:
        role: the role.
        paths: what it is limited to, as paths of a scope (queues for the pilot role); ``("/",)`` is everything.
    """

    role: Role
    paths: tuple[str, ...] = ("/",)


@dataclass(frozen=True)
class Identity:
    """The bearer of a valid token.

    Attributes:
        subject: the name of the subject, recorded as the editor of its changes.
        issuer: issuer of the token; ``local`` for the token file of this machine.
        grants: the grants by role.
        token: identifier of the token (``jti``); None if it has none.
        expires_at_s: when the token expires, in seconds since 1970.
        username: PanDA user whose tasks are the subject's own; None if unknown.
        reusable: whether the token may be used for any number of writes.
    """

    subject: str
    issuer: str
    grants: Mapping[Role, Grant] = field(default_factory=dict)
    token: str | None = None
    expires_at_s: float = float("inf")
    username: str | None = None
    reusable: bool = True

    def has(self, role: Role) -> bool:
        """Whether the identity has a role."""
        return role in self.grants

    @property
    def editor(self) -> str:
        """The name under which changes of this identity are recorded in the audit."""
        whole = self.subject if self.issuer == LOCAL else f"{self.subject} ({self.issuer})"
        return whole[:LONGEST_EDITOR]


LONGEST_EDITOR = 128
LOCAL = "local"
"""The issuer of the token file of one machine."""


GROUP_CLAIMS = ("wlcg.groups", "groups")
"""Claims with group names: that of the WLCG profile, and that of other issuers."""


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
    """The roles that the claims of a token grant."""
    paths: dict[Role, list[str]] = {}
    scopes = read_scopes(claims.get("scope"))
    groups = _groups(claims)
    for rule in rules:
        granted_paths = [scope.path for scope in scopes if scope.name in rule.scopes]
        if groups.intersection(rule.groups) or claims.get("sub") in rule.subjects:
            granted_paths += [path for path in rule.paths if components(path) is not None]
        if granted_paths:
            paths.setdefault(rule.role, []).extend(granted_paths)
    return {role: Grant(role, tuple(dict.fromkeys(granted_paths))) for role, granted_paths in paths.items()}


def _groups(claims: Mapping[str, Any]) -> set[str]:
    groups: set[str] = set()
    for name in GROUP_CLAIMS:
        value = claims.get(name)
        if isinstance(value, list):
            groups.update(group for group in value if isinstance(group, str))
    return groups


AccessVerdict = Literal["allowed", "unauthenticated", "forbidden"]


@dataclass(frozen=True)
class Policy:
    """Who may use a route.

    Attributes:
        name: name of the policy, for the documentation.
        roles: roles of which one is required; empty: no role is required.
        anonymous: ``always``, ``if_configured`` (depends on ``anonymous_read``) or ``never``.
        writes: whether the route changes something.
        once: whether a token with an identifier is valid for only one use of the route (WLCG token profile 1.3,
            ``jti``). False for machines that report continuously, whose requests are idempotent.
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
"""Decisions and state of the grid; user names are shown only to requests with a token."""
READ_NAMES = Policy("read_names", frozenset({Role.READER, Role.SUBMITTER, Role.OPERATOR, Role.TUNER}))
"""Data about users by name."""
KNOWN = Policy("known", _EVERYBODY)
"""Anyone with a valid token."""
FACTORY = Policy("factory", frozenset({Role.READER, Role.PILOT, Role.OPERATOR}), "if_configured")
"""Data that pilot factories look up."""
DECIDE = Policy("decide", frozenset({Role.READER, Role.SUBMITTER, Role.OPERATOR, Role.TUNER}))
"""Deciding without writing; never anonymous, because it costs time."""
SUBMIT = Policy("submit", frozenset({Role.SUBMITTER}), writes=True, once=True)
ACT_ON_TASKS = Policy("act_on_tasks", frozenset({Role.SUBMITTER, Role.OPERATOR}), writes=True, once=True)
"""Killing, retrying and the like: submitters on their own tasks, operators on all."""
CLIENT_SUBMIT = Policy("client_submit", SUBMIT.roles, writes=True)
"""Submitting with panda-client, which sends the same token with each of the three writes of one ``prun``."""
CLIENT_ACT = Policy("client_act", ACT_ON_TASKS.roles, writes=True)
"""Acting on tasks with panda-client, which reuses its token likewise."""
PILOT = Policy("pilot", frozenset({Role.PILOT}), writes=True)
"""Jobs and reports of pilots; each request is idempotent by pilot and number, and a pilot has one token."""
SOURCE = Policy("source", frozenset({Role.OPERATOR}), writes=True)
"""Whole documents of a source; sending the same document again changes nothing."""
OPERATE = Policy("operate", frozenset({Role.OPERATOR}), writes=True, once=True)
TUNE = Policy("tune", frozenset({Role.TUNER}), writes=True, once=True)
TRY = Policy("try", frozenset({Role.OPERATOR, Role.TUNER}), writes=True, once=True)
"""Runs that replay stored cycles, which cost minutes of CPU time."""


def judge(policy: Policy, identity: Identity | None, *, anonymous_read: bool) -> AccessVerdict:
    """Whether ``policy`` admits a request; ``identity`` is None for a request without a token."""
    if policy.anonymous == "always" or (policy.anonymous == "if_configured" and anonymous_read and identity is None):
        return "allowed"
    if identity is None:
        return "unauthenticated"
    if not policy.roles or any(identity.has(role) for role in policy.roles):
        return "allowed"
    return "forbidden"


def may_ask_for(identity: Identity, role: Role, path: str) -> bool:
    """Whether the identity has ``role`` for ``path``, such as ``/QUEUE``."""
    grant = identity.grants.get(role)
    return grant is not None and any(covers(allowed, path) for allowed in grant.paths)
