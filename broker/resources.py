"""Files that are shipped with the broker, from a checkout or from an installed wheel.

What installed distributions offer, looked up once per process: each look reads the files of all distributions.
"""

from __future__ import annotations

from functools import cache
from importlib import metadata
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def path(name: str) -> Path:
    """The file or directory ``name`` (such as ``config/gdpconfig.yaml``) of this installation.

    Raises:
        FileNotFoundError: it is neither in the package's data nor in the checkout.
    """
    for root in (_PACKAGE / "_data", _PACKAGE.parent):
        candidate = root / name
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"{name} is missing from the installation; reinstall gridbroker")


@cache
def entry_points(group: str) -> tuple[metadata.EntryPoint, ...]:
    """The entry points of a group, in the order of the distributions; nothing of them is imported."""
    return tuple(metadata.entry_points(group=group))
