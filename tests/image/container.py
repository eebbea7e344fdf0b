"""Runs processes of the image as a container does: with its account, its variables, and a read-only root.

No container engine is used: mounts and processes have kernel namespaces; the network is that of this machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Image:
    """The image built by ``.ci/build-image``.

    Attributes:
        root: the folder with its files.
        config: the configuration of its processes in Docker's terms (``Entrypoint``, ``Cmd``, ``User``, ``Env``, ...).
    """

    root: Path
    config: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Image:
        """Read the image from the folder of ``.ci/build-image``."""
        document = json.loads((folder / "image.json").read_text(encoding="utf-8"))
        return cls((folder / "root").resolve(), document["Docker"]["config"])


@dataclass(frozen=True)
class Container:
    """The environment in which processes of an image run.

    Attributes:
        name: the host name that its processes see.
        image: the image of the processes.
        volume: the persistent folder, mounted at the only volume of the image.
        secrets: the folder mounted at ``/run/secrets``.
        variables: environment variables in addition to those of the image.
    """

    name: str
    image: Image
    volume: Path
    secrets: Path
    variables: Mapping[str, str]

    @property
    def user(self) -> int:
        """The user id of the account."""
        return int(str(self.image.config["User"]).split(":")[0])

    def _command(self, words: Sequence[str]) -> list[str]:
        root, config = shlex.quote(str(self.image.root)), self.image.config
        (volume,) = config["Volumes"]
        steps = [
            "set -e",
            "mount --make-rprivate /",
            f"echo {shlex.quote(self.name)} > /proc/sys/kernel/hostname",
            f"mount --bind {root} {root}",
            f"mount -t proc proc {root}/proc",
            f"mount --rbind /dev {root}/dev",
            f"mount -t tmpfs -o mode=1777 tmpfs {root}/tmp",
            f"mount -t tmpfs tmpfs {root}/run",
            f"mkdir {root}/run/secrets",
            f"mount --bind {shlex.quote(str(self.secrets))} {root}/run/secrets",
            f"mount --bind {shlex.quote(str(self.volume))} {root}{volume}",
            f"mount -o remount,bind,ro {root}",
        ]
        variables = [*config["Env"], *(f"{name}={value}" for name, value in self.variables.items())]
        command = ["env", "-i", f"--chdir={config['WorkingDir']}", *variables, *words]
        steps.append(f"exec chroot --userspec={config['User']} --groups= {root} {shlex.join(command)}")
        spaces = ["--mount", "--pid", "--uts", "--fork"]
        return ["unshare", *spaces, "sh", "-c", "\n".join(steps)]

    def run(self, *words: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a program of the image and wait for its end."""
        return subprocess.run(
            self._command(words), check=False, capture_output=True, text=True, timeout=timeout_s, env=_host()
        )

    def health(self, test: Sequence[str]) -> str:
        """The output of a failed health check, empty if it passes; ``test`` has Docker's form, ``CMD`` first."""
        kind, *words = test
        assert kind == "CMD", test
        result = self.run(*words)
        return "" if result.returncode == 0 else f"{result.returncode}: {result.stdout}{result.stderr}"

    @contextlib.contextmanager
    def service(self, *arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Run the entry point with ``arguments``, or with those of the image, until the end of the block."""
        words = [*self.image.config["Entrypoint"], *(arguments or self.image.config["Cmd"])]
        with log.open("ab") as output:
            process = subprocess.Popen(self._command(words), stdout=output, stderr=output, env=_host())
        try:
            yield process
        finally:
            if process.poll() is None:
                # It runs as another account, so it does not die with the process that created its namespaces.
                os.kill(first_process(process.pid), signal.SIGKILL)
            process.wait()


def first_process(outer: int) -> int:
    """The process with PID 1 in the namespace of a container that ``unshare`` started."""
    (child,) = Path(f"/proc/{outer}/task/{outer}/children").read_text(encoding="ascii").split()
    return int(child)


def _host() -> dict[str, str]:
    return {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
