"""Counts of JEDI's plug-in calls in files, while the database cannot be written: one file for each process.

Each line counts equal calls. The plug-in moves the counts into ``broker.plugin_calls`` as soon as it can; until then
`broker doctor` reads them here.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import platformdirs

from broker.alongside.statements.plugin_calls import Call, CallCount

SUFFIX, TAKEN = ".calls", ".taken"
#: Most lines of a file that are read: hours, brokerages and reasons are few.
_MOST_LINES = 10_000


def shipped_folder() -> Path:
    """Default folder of the files: the data folder of the account that runs JEDI."""
    return Path(platformdirs.user_data_dir("gridbroker", appauthor=False)) / "plugin-calls"


class CallFile:
    """The file of this process.

    Args:
        folder: of the files of all processes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / f"{socket.gethostname()}-{os.getpid()}{SUFFIX}"
        self._lock = threading.Lock()

    def add(self, call: Call, hour: datetime) -> None:
        """Count a call in its hour.

        Raises:
            OSError: the file cannot be written.
        """
        with self._lock:
            self._folder.mkdir(parents=True, exist_ok=True)
            counts = {(count.hour, count.call): count.calls for count in _read(self._path)}
            counts[hour, call] = counts.get((hour, call), 0) + 1
            text = "".join(_line(CallCount(*key, calls)) for key, calls in counts.items())
            new = self._path.with_suffix(".new")
            new.write_text(text, encoding="utf-8")
            new.replace(self._path)

    def take(self) -> list[tuple[Path, list[CallCount]]]:
        """Claim the files of all processes, each with its counts; the caller removes them."""
        claimed = []
        with self._lock:
            for path in sorted(self._folder.glob(f"*{SUFFIX}")):
                taken = path.with_name(f"{path.name}.{os.getpid()}{TAKEN}")
                try:
                    path.rename(taken)
                except FileNotFoundError:
                    continue  # another process was faster
                claimed.append((taken, _read(taken)))
        return claimed

    @staticmethod
    def give_back(path: Path) -> None:
        """Release a claimed file to be claimed again: its counts are not in the database."""
        path.rename(path.with_name(path.name.removesuffix(TAKEN) + SUFFIX))


def read_folder(folder: Path) -> list[CallCount]:
    """The counts in the files of a folder; none if there is no folder."""
    return [count for path in sorted(folder.glob(f"*{SUFFIX}")) for count in _read(path)]


def _line(count: CallCount) -> str:
    row = (count.hour.isoformat(), count.call.brokerage, count.call.outcome, count.call.reason[:120], count.calls)
    return json.dumps(row) + "\n"


def _read(path: Path) -> list[CallCount]:
    try:
        lines: Iterable[str] = path.read_text(encoding="utf-8").splitlines()[:_MOST_LINES]
    except FileNotFoundError:
        return []
    counts = []
    for line in lines:
        try:
            hour, brokerage, outcome, reason, calls = json.loads(line)
            counts.append(CallCount(datetime.fromisoformat(hour), Call(brokerage, outcome, reason), int(calls)))
        except (ValueError, TypeError):
            continue  # half a line of a full disk counts nothing
    return counts
