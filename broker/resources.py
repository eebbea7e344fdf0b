"""What this installation contains: shipped files, entry points of all distributions, and owners of our packages.

Files are found in a checkout or an installed wheel. Entry points are looked up once per process, because each look-up
reads the files of all distributions. :func:`require_own_packages` checks that no other distribution installs packages
of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from importlib.metadata import packages_distributions
from pathlib import Path

from broker.errors import Refused

DISTRIBUTION = "gridbroker"
PACKAGES = ("agents", "broker", "gridbroker_client")


class SharedPackage(Refused):
    """Two installed distributions have a package of the same name."""


def other_owners(owners: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The other distributions that install a package of ours, in order, by package; those of ours alone are left out.

    Args:
        owners: distributions by package, each once for each of its files, as
            :func:`importlib.metadata.packages_distributions` gives them.
    """
    others = {package: tuple(sorted(set(owners.get(package, ())) - {DISTRIBUTION})) for package in PACKAGES}
    return {package: names for package, names in others.items() if names}


def require_own_packages(owners: Mapping[str, Sequence[str]] | None = None) -> None:
    """Refuse to go on if another distribution installs a package of ours, as ``openai-agents`` does with ``agents``.

    Args:
        owners: see :func:`other_owners`; by default those of this environment, which takes some 0.1 s to read.

    Raises:
        SharedPackage: another distribution does; the error names both owners.
    """
    for package, names in other_owners(packages_distributions() if owners is None else owners).items():
        raise SharedPackage(
            f"{DISTRIBUTION} and {', '.join(names)} both install the package {package}",
            "this Python environment",
            f"give {DISTRIBUTION} an environment of its own: the last to be installed wrote over the other's files",
        )


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
    """The entry points of a group, in the order of the distributions; none of them is imported."""
    return tuple(metadata.entry_points(group=group))
