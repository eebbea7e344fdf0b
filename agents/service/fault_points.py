"""Named places of a cycle at which a test can stop, fail or kill the broker.

Nothing happens at a fault point unless one was armed when the process started, by the environment variable
``BROKER_FAULT``: ``POINT:ACTION[:ARGUMENT]``, several separated by commas. The actions are

- ``kill``: the process kills itself with SIGKILL;
- ``stop``: it stops itself with SIGSTOP, and goes on when somebody sends SIGCONT;
- ``pause:FILE``: it waits until the file exists;
- ``raise``: it raises :class:`InjectedFaultError`.

Each fires once. ``BROKER_FAULT_MARKERS`` names a directory in which a file ``POINT`` proves that the fault fired.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

POINTS = (
    "before_snapshot",
    "after_snapshot",
    "before_write",
    "after_write_before_commit",
    "after_commit",
    "during_renew",
    "before_rucio_files",
    "after_rucio_files",
    "after_rucio_dataset",
    "after_rucio_close",
    "before_submission",
    "before_delivery",
    "after_delivery",
    "after_submission",
)
ACTIONS = ("kill", "stop", "pause", "raise")
_PAUSE_STEP_S = 0.02


class InjectedFaultError(RuntimeError):
    """Raised by a fault point armed with ``raise``."""


class FaultSpecificationError(ValueError):
    """``BROKER_FAULT`` does not have the form described in this module."""


@dataclass
class _Armed:
    """The faults that have not fired yet, by point."""

    actions: dict[str, Callable[[], None]] = field(default_factory=dict)
    markers: Path | None = None


_armed: _Armed | None = None


def reach(point: str) -> None:
    """Mark that the cycle has reached ``point``; does nothing unless a fault is armed there."""
    if _armed is None:
        return
    action = _armed.actions.pop(point, None)
    if action is None:
        return
    if _armed.markers is not None:
        (_armed.markers / point).touch()
    action()


def arm(environment: Mapping[str, str]) -> None:
    """Arm the faults that ``environment`` requests, and disarm all others.

    Raises:
        FaultSpecificationError: a point or an action is unknown.
    """
    global _armed
    specification = environment.get("BROKER_FAULT", "")
    if not specification:
        _armed = None
        return
    markers = environment.get("BROKER_FAULT_MARKERS")
    _armed = _Armed(dict(_parsed(item) for item in specification.split(",")), Path(markers) if markers else None)


def arm_action(point: str, action: Callable[[], None]) -> None:
    """Arm ``action`` at ``point`` of this process; it is called once."""
    global _armed
    if _armed is None:
        _armed = _Armed()
    _armed.actions[_known(point)] = action


def disarm() -> None:
    """Disarm all faults."""
    global _armed
    _armed = None


def _parsed(item: str) -> tuple[str, Callable[[], None]]:
    point, _, rest = item.strip().partition(":")
    action, _, argument = rest.partition(":")
    if action not in ACTIONS or (action == "pause") != bool(argument):
        raise FaultSpecificationError(
            f"BROKER_FAULT: {item!r} is not POINT:ACTION with an action of {', '.join(ACTIONS)} (pause:FILE)"
        )
    actions: dict[str, Callable[[], None]] = {
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        # to this very thread: it must not run on until another thread has received the signal
        "stop": lambda: signal.pthread_kill(threading.get_ident(), signal.SIGSTOP),
        "pause": lambda: _wait_for(Path(argument)),
        "raise": lambda: _raise(point),
    }
    return _known(point), actions[action]


def _known(point: str) -> str:
    if point not in POINTS:
        raise FaultSpecificationError(f"there is no fault point {point!r}; known are {', '.join(POINTS)}")
    return point


def _wait_for(file: Path) -> None:
    pacer = threading.Event()
    while not file.exists():
        pacer.wait(_PAUSE_STEP_S)


def _raise(point: str) -> None:
    raise InjectedFaultError(f"injected at {point}")
