"""Which scopes and groups of which issuer give which role: the map in ``config/api.yaml``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from broker.access.roles import Grant, Role
from broker.access.scopes import components, read_scopes

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
