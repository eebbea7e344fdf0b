"""Processes of the image as a container runs them: its account, its variables, a root that is only read.

Without a container engine: namespaces of the kernel for mounts and processes, the network of this machine.
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
    """The image that ``.ci/build-image`` has built.

    Attributes:
        root: its files.
        config: what it says of its processes, in Docker's words (``Entrypoint``, ``Cmd``, ``User``, ``Env``, ...).
    """

    root: Path
    config: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Image:
        """The image in the folder of ``.ci/build-image``."""
        described = json.loads((folder / "image.json").read_text(encoding="utf-8"))
        return cls((folder / "root").resolve(), described["Docker"]["config"])


@dataclass(frozen=True)
class Container:
    """Where processes of an image run.

    Attributes:
        name: of the host that its processes see.
        image: of the processes.
        volume: the folder that lasts, at the only volume of the image.
        secrets: a folder shown at ``/run/secrets``.
        variables: of the environment, besides those of the image.
    """

    name: str
    image: Image
    volume: Path
    secrets: Path
    variables: Mapping[str, str]

    @property
    def user(self) -> int:
        """The number of the account."""
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
        named = [*config["Env"], *(f"{name}={value}" for name, value in self.variables.items())]
        inside = ["env", "-i", f"--chdir={config['WorkingDir']}", *named, *words]
        steps.append(f"exec chroot --userspec={config['User']} --groups= {root} {shlex.join(inside)}")
        spaces = ["--mount", "--pid", "--uts", "--fork"]
        return ["unshare", *spaces, "sh", "-c", "\n".join(steps)]

    def run(self, *words: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a program of the image to its end."""
        return subprocess.run(
            self._command(words), check=False, capture_output=True, text=True, timeout=timeout_s, env=_host()
        )

    def health(self, test: Sequence[str]) -> str:
        """What a health check says that fails, empty where it passes; ``test`` is in Docker's form, ``CMD`` first."""
        kind, *words = test
        assert kind == "CMD", test
        done = self.run(*words)
        return "" if done.returncode == 0 else f"{done.returncode}: {done.stdout}{done.stderr}"

    @contextlib.contextmanager
    def service(self, *arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """The entry point of the image with ``arguments``, or those of the image, until the end of the block."""
        words = [*self.image.config["Entrypoint"], *(arguments or self.image.config["Cmd"])]
        with log.open("ab") as output:
            process = subprocess.Popen(self._command(words), stdout=output, stderr=output, env=_host())
        try:
            yield process
        finally:
            if process.poll() is None:
                # Its account is another one, so that it does not die with the process that made its namespaces.
                os.kill(first_process(process.pid), signal.SIGKILL)
            process.wait()


def first_process(outer: int) -> int:
    """The process that the kernel counts as the first one of a container that ``unshare`` has begun."""
    (child,) = Path(f"/proc/{outer}/task/{outer}/children").read_text(encoding="ascii").split()
    return int(child)


def _host() -> dict[str, str]:
    return {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
