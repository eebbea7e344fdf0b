"""Global shares as operators declare them, and checks that a change keeps the tree intact.

Source: PanDA data model, global_shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from broker.errors import NotFound, Refused, did_you_mean

LONGEST_NAME = 32
LONGEST_PATTERN = 100
LARGEST_VALUE = 32_767


class ShareRefused(Refused):
    """The share cannot be set or removed in this way."""


@dataclass(frozen=True)
class GlobalShare:
    """A share.

    Attributes:
        name: name of the share.
        value: its part, relative to its siblings.
        parent: the share that it is a part of; None at the top.
        prodsourcelabel: pattern of the labels of tasks that belong to it automatically; None: any.
        workinggroup: pattern of their working groups.
        processingtype: pattern of their processing types.
        vo: VO of the share; None: any.
    """

    name: str
    value: int
    parent: str | None = None
    prodsourcelabel: str | None = None
    workinggroup: str | None = None
    processingtype: str | None = None
    vo: str | None = None


def check_share(share: GlobalShare, known: Mapping[str, GlobalShare]) -> None:
    """Refuse a share that PanDA's table cannot hold, or that has no place in the tree.

    Args:
        share: the share after the change.
        known: the shares on record, by name.

    Raises:
        ShareRefused: a name, value or pattern is out of range, or the parent is the share itself or below it.
        NotFound: there is no such parent.
    """
    name = share.name
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise ShareRefused(
            f"not a name of a share: {name[:40]!r}", "NAME", f"give 1 to {LONGEST_NAME} printable characters"
        )
    if not 0 <= share.value <= LARGEST_VALUE:
        raise ShareRefused(
            f"{share.value} is out of range", f"value of {name}", f"give a whole number from 0 to {LARGEST_VALUE}"
        )
    for field in ("prodsourcelabel", "workinggroup", "processingtype"):
        pattern = getattr(share, field)
        if pattern is not None and not 0 < len(pattern) <= LONGEST_PATTERN:
            raise ShareRefused("too long a pattern", f"{field} of {name}", f"give 1 to {LONGEST_PATTERN} characters")
    if share.parent is not None:
        _check_parent(share, known)


def _check_parent(share: GlobalShare, known: Mapping[str, GlobalShare]) -> None:
    ancestor = share.parent
    if ancestor is not None and ancestor != share.name and ancestor not in known:
        raise NotFound(
            f"there is no share {ancestor[:40]}",
            f"parent of {share.name}",
            did_you_mean(ancestor, known, "set it first"),
        )
    visited: set[str] = set()
    while ancestor is not None and ancestor not in visited:
        if ancestor == share.name:
            raise ShareRefused(
                f"{share.name} would be below itself", f"parent of {share.name}", "name another parent, or none"
            )
        visited.add(ancestor)
        ancestor = known[ancestor].parent if ancestor in known else None


def check_removal(name: str, known: Iterable[GlobalShare], open_tasks: int) -> None:
    """Refuse to remove a share that others or tasks need.

    Args:
        name: name of the share.
        known: the shares on record.
        open_tasks: how many of its tasks have not ended.

    Raises:
        ShareRefused: shares are below it, or some of its tasks have not ended.
    """
    below = sorted(share.name for share in known if share.parent == name)
    if below:
        raise ShareRefused(
            f"{', '.join(below[:5])} would lose the parent", f"share {name}", "move or remove them first"
        )
    if open_tasks:
        raise ShareRefused(
            f"{open_tasks} tasks of it have not ended",
            f"share {name}",
            "set its value to 0, and remove it when they end",
        )
