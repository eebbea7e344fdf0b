"""Files that are shipped with the broker, from a checkout or from an installed wheel."""

from __future__ import annotations

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
