"""Roles, and who somebody is: the subject of a token with the roles that it grants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from broker.access.scopes import components, read_scopes


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
