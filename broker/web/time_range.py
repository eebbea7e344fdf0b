"""The time shown by a page: an instant, and the span before it, both in its address."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request

from broker.api.state import aware

LONGEST_H = 24.0 * 35
Hours = Annotated[float, Query(gt=0, le=LONGEST_H, description="How many hours back.")]
SomeHours = Annotated[float | None, Query(gt=0, le=LONGEST_H, description="How many hours back.")]
"""Hours back; None: as far as data exists, at most a day."""
RANGES: tuple[tuple[float, str], ...] = ((1.0, "1 h"), (6.0, "6 h"), (24.0, "24 h"), (72.0, "3 d"), (168.0, "7 d"))
A_DAY_H = 24.0


def time_shown(request: Request, at: datetime | None, now: datetime, hours: float | None = None) -> dict[str, Any]:
    """Return the content of the component ``parts.time``.

    Args:
        request: the request whose address is kept, apart from the choices.
        at: the requested instant; None: now.
        now: the instant shown.
        hours: span before it; None: the page has no range.
    """
    instant_shown = now if at is None else aware(at)
    back = timedelta(hours=hours or A_DAY_H)
    parameters = [(name, value) for name, value in request.query_params.multi_items() if name not in ("at", "hours")]
    ranges = [
        {
            "word": word,
            "count": None,
            "address": _with(request, hours=f"{one:g}"),
            "on": hours == one,
        }
        for one, word in RANGES
    ]
    return {
        "ranges": ranges if hours is not None else [],
        "words": _words(instant_shown, at is not None, hours),
        "at": "" if at is None else f"{instant_shown.astimezone(UTC):%Y-%m-%dT%H:%M}",
        "earlier": _with(request, at=_written(instant_shown - back)),
        "later": None if at is None else _with(request, at=_written(instant_shown + back)),
        "now": str(request.url.remove_query_params("at").replace(scheme="", netloc="")),
        "kept": parameters if hours is None else [*parameters, ("hours", f"{hours:g}")],
        "path": request.url.path,
        "since": f"/compare?then={_written(instant_shown - timedelta(hours=A_DAY_H))}"
        + (f"&at={_written(instant_shown)}" if at else ""),
        "step": f"{back.total_seconds() / 3600:g} h",
    }


def _words(instant: datetime, then: bool, hours: float | None) -> str:
    """Describe the time in words: ``24 h to now``, ``as it was at ...``."""
    end = f"{instant.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if then else "now"
    if hours is None:
        return f"as it was at {end}" if then else "as it is now"
    return f"{dict(RANGES).get(hours, f'{hours:g} h')} to {end}"


def plot_address(address: str, at: datetime | None, hours: float) -> str:
    """Return the address of a plot's data for the time that the page shows."""
    parts = [] if hours == A_DAY_H else [f"hours={hours:g}"]
    parts += [] if at is None else [f"at={_written(aware(at))}"]
    return f"{address}?{'&'.join(parts)}" if parts else address


def _written(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _with(request: Request, **given: str) -> str:
    return str(request.url.include_query_params(**given).replace(scheme="", netloc=""))
