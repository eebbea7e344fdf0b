"""Whether the packages of this distribution are its own where it is installed.

The wheel installs ``broker``, ``agents`` and ``gridbroker_client``. Another distribution with one of these names writes
over its files, so that a service would run a mixture of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import packages_distributions

from broker.errors import Refused

DISTRIBUTION = "gridbroker"
PACKAGES = ("agents", "broker", "gridbroker_client")


class SharedPackage(Refused):
    """Two installed distributions have a package of the same name."""


def other_owners(owners: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The other distributions that install a package of ours, in order, by package; without those that are ours alone.

    Args:
        owners: distributions by package, each once for each of its files, as
            :func:`importlib.metadata.packages_distributions` gives them.
    """
    others = {package: tuple(sorted(set(owners.get(package, ())) - {DISTRIBUTION})) for package in PACKAGES}
    return {package: names for package, names in others.items() if names}


def require_own_packages(owners: Mapping[str, Sequence[str]] | None = None) -> None:
    """Refuse where another distribution installs a package of ours, as ``openai-agents`` does with ``agents``.

    Args:
        owners: see :func:`other_owners`; those of this environment where none are given, which takes some 0.1 s.

    Raises:
        SharedPackage: with both owners.
    """
    for package, names in other_owners(packages_distributions() if owners is None else owners).items():
        raise SharedPackage(
            f"{DISTRIBUTION} and {', '.join(names)} both install the package {package}",
            "this Python environment",
            f"give {DISTRIBUTION} an environment of its own: the last to be installed wrote over the other's files",
        )
