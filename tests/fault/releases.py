"""Simulated later releases: this checkout with another version number and more schema steps, run as processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.docs.source_tree import ROOT

PACKAGES = ("broker", "agents", "gridbroker_client", "schema", "config")


@dataclass(frozen=True)
class Release:
    """One release in a folder.

    Attributes:
        folder: the folder it runs from.
    """

    folder: Path

    @contextmanager
    def running(self, url: str, *words: str, log: Path) -> Iterator[subprocess.Popen[str]]:
        """Run a command of the release as a process that ends with the block."""
        with log.open("a") as out:
            process = self._start(url, words, out.fileno())
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait()

    def run(self, url: str, *words: str) -> tuple[int, str, str]:
        """Return exit status, output and errors of a command of the release."""
        process = self._start(url, words, subprocess.PIPE)
        out, errors = process.communicate(timeout=120)
        return process.returncode, out, errors

    def _start(self, url: str, words: tuple[str, ...], out: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "broker.cli.main", "--db", url, *words],
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            cwd=self.folder,
            stdout=out,
            stderr=out,
            text=True,
            start_new_session=True,
        )


def this_release() -> Release:
    """Return the checkout as a release."""
    return Release(ROOT)


def later_release(folder: Path, version: str, **steps: str) -> Release:
    """Copy the checkout under another version, with more steps: ``step_`` plus the file name, and its text."""
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name)
    init = folder / "broker" / "__init__.py"
    text = init.read_text(encoding="utf-8")
    init.write_text(text + f'\n__version__ = "{version}"\n', encoding="utf-8")
    for name, step in steps.items():
        (folder / "schema" / "broker" / f"{name.removeprefix('step_')}.sql").write_text(step, encoding="utf-8")
    return Release(folder)
