"""What commands need that is not installed with the broker itself."""

from __future__ import annotations

from importlib.util import find_spec

from broker.errors import BrokerError

PACKAGES = {
    "api": ("fastapi", "uvicorn", "joserfc", "prometheus_client"),
    "simulate": ("scipy",),
    "web": ("fastapi", "uvicorn", "joserfc", "prometheus_client", "jinja2"),
}
"""The packages of an extra, as they are imported; the solver of ``simulate`` is asked for by what needs it."""


class ExtraMissing(BrokerError):
    """A package of an extra is not installed."""


def is_installed(extra: str) -> bool:
    """Whether the packages of an extra are there."""
    return all(find_spec(name) is not None for name in PACKAGES[extra])


def require(extra: str) -> None:
    """See that the packages of an extra are there.

    Raises:
        ExtraMissing: one is not.
    """
    missing = [name for name in PACKAGES[extra] if find_spec(name) is None]
    if missing:
        output = f"not installed: {', '.join(missing)}"
        raise ExtraMissing(output, f"extra {extra}", f'pip install "gridbroker[{extra}]"')
