"""Template filters that format values for a page. They return text, which the template escapes, or safe markup."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from broker.api.presenting import to_path
from broker.domain.instants import aware, length
from broker.domain.words import number, with_unit

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(9), 11, 12, *range(14, 32), 127, *range(128, 160))}
#: Characters that turn the direction of text around, so that a name looks like another one.
_CONTROLS |= {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)}


def visible(value: Any) -> str:
    """Return the value as text with control characters and direction marks written as their hexadecimal codes."""
    text = "" if value is None else str(value)
    # nothing that is printable is among those characters
    return text if text.isprintable() else text.translate(_CONTROLS)


def shown(value: Any, unit: str = "") -> str:
    """Format a figure with its unit; a dash for None."""
    return "–" if value is None else visible(with_unit(value, unit) if unit else number(value))  # noqa: RUF001


def duration(value: float | None) -> str:
    """Format seconds as a length of time, in ms below one second; a dash for None."""
    if value is None:
        return "–"  # noqa: RUF001
    return f"{1000 * value:.0f} ms" if 0 < value < 1 else length(value)


def moment(value: datetime | str | None) -> Markup:
    """Return a ``<time>`` element with the instant to the minute in UTC; a dash for None."""
    if value is None:
        return Markup("–")  # noqa: RUF001
    at = instant(value)
    words = Markup("<span>{}</span> <span>{}</span>").format(f"{at:%Y-%m-%d}", f"{at:%H:%M} UTC")
    return Markup('<time datetime="{}">{}</time>').format(at.isoformat(), words)


def ago(value: datetime | str | None, now: datetime | str) -> Markup:
    """Return a ``<time>`` element that says how long ago the instant was, or in how long it comes; a dash for None."""
    if value is None:
        return Markup("–")  # noqa: RUF001
    at = instant(value)
    passed_s = (instant(now) - at).total_seconds()
    words = f"{length(passed_s)} ago" if passed_s >= 0 else f"in {length(-passed_s)}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(), f"{at:%Y-%m-%d %H:%M:%S} UTC", words
    )


def waited(value: datetime | str | None, now: datetime | str) -> Markup:
    """Return how long something has waited since an instant."""
    if value is None:
        return Markup("–")  # noqa: RUF001
    at = instant(value)
    words = length((instant(now) - at).total_seconds())
    return Markup('<time datetime="{}"><span>{}</span></time>').format(at.isoformat(), words)


def gigabytes(value: float | None) -> str:
    """Format GB, from a thousand on as TB or PB; a dash for None."""
    if value is None:
        return "–"  # noqa: RUF001
    for unit, size in (("PB", 1e6), ("TB", 1e3)):
        if abs(value) >= size:
            return f"{value / size:,.{0 if abs(value) >= 100 * size else 1}f} {unit}"
    return f"{value:,.0f} GB"


def instant(value: datetime | str) -> datetime:
    """Parse an instant of an answer, made aware."""
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return aware(at)


def in_path(name: Any) -> str:
    """Quote a name for a path; the ``/`` in names of pseudo-queues stays."""
    return quote(str(name), safe="/")


def percent(value: float | None) -> str:
    """Format a percentage with one decimal; a dash for None."""
    return "–" if value is None else f"{value:,.1f} %"  # noqa: RUF001


def reason_link(code: str | None) -> Markup:
    """Return a link to the page of a reason code; a dash for none."""
    if not code:
        return Markup("–")  # noqa: RUF001
    return Markup('<a class="code" href="/reasons/{}">{}</a>').format(in_path(code), breakable(code))


def breakable(code: str) -> Markup:
    """Return the code with places at which a narrow column may break it."""
    return Markup("_<wbr>").join(visible(code).split("_"))


def queue_link(name: str) -> Markup:
    """Return a link to the page of a queue, also from a pseudo-queue."""
    return Markup('<a href="/queues/{}">{}</a>').format(in_path(name.split("/")[0]), visible(name))


def task_link(task: int) -> Markup:
    """Return a link to the page of a task."""
    return Markup('<a href="/tasks/{}">{}</a>').format(task, task)


def text(value: Any) -> Markup:
    """Return any text with invisible characters made visible."""
    return escape(visible(value))


def prose(value: str) -> Markup:
    """Return the text with what stands in backticks as ``<code>`` elements."""
    parts = enumerate(visible(value).split("`"))
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in parts)


#: What a state means; each meaning has a colour and a mark of its own, and other states have none.
_STATES = {
    "run": (
        "brokered",
        "online",
        "running",
        "finished",
        "done",
        "ok",
        "alive",
        "transferring",
        "merging",
        "active",
        "pass",
    ),
    "wait": (
        "pending",
        "waiting",
        "assigned",
        "activated",
        "starting",
        "sent",
        "holding",
        "defined",
        "ready",
        "registered",
        "assigning",
        "scouting",
        "shrunk",
        "refused",
        "test",
        "brokerage",
        "throttle",
        "exhausted",
    ),
    "fail": (
        "failed",
        "broken",
        "aborted",
        "cancelled",
        "failing",
        "overdue",
        "silent",
        "stale",
        "missing",
        "closed",
        "over_budget",
        "failed_transient",
        "excluded",
        "fails",
        "fail",
    ),
    "limit": ("throttled", "full", "probation", "held"),
    "idle": (
        "offline",
        "paused",
        "brokeroff",
        "skipped",
        "off",
        "not yet",
        "none yet",
        "ended",
        "unknown",
        "not asked",
    ),
}
_OF_STATE = {word: kind for kind, words in _STATES.items() for word in words}


def state(word: str | None) -> Markup:
    """Return a state in the colour of its meaning; a dash for None."""
    if not word:
        return Markup("–")  # noqa: RUF001
    return Markup('<span class="pill {}">{}</span>').format(
        _OF_STATE.get(word.lower(), "plain"), visible(word).replace("_", " ")
    )


FILTERS = {
    "breakable": breakable,
    "ago": ago,
    "gigabytes": gigabytes,
    "waited": waited,
    "duration": duration,
    "in_path": in_path,
    "moment": moment,
    "percent": percent,
    "prose": prose,
    "queue": queue_link,
    "reason": reason_link,
    "shown": shown,
    "state": state,
    "task": task_link,
    "text": text,
    "user_path": to_path,
}
