"""Somebody with panda-client in a shell: the environment of docs/how-to/use-panda-client.md, and a directory."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

WITHIN_S = 60


@dataclass
class User:
    """A user.

    Attributes:
        client: folder of the environment with panda-client.
        url: of the server.
        token: that the client shows; empty: it asks for one.
        folder: with the user's program, and the client's configuration beside it.
    """

    client: Path
    url: str
    token: str
    folder: Path

    def write(self, name: str, *lines: str) -> None:
        """A program in the directory."""
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        (work / name).write_text("\n".join(("#!/bin/sh", *lines, "")), encoding="utf-8")
        (work / name).chmod(0o755)

    def run(self, program: str, *arguments: str, said: str = "") -> tuple[int, str]:
        """The exit status of a command of panda-client, and what it printed."""
        done = subprocess.run(
            [str(self.client / "bin" / program), *arguments],
            cwd=self.folder / "work",
            env=self._environment(),
            input=said,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )
        return done.returncode, done.stdout

    def prun(self, command: str, name: str, *arguments: str) -> int:
        """The number of the task that ``prun`` submits."""
        status, printed = self.run("prun", "--exec", command, "--outDS", f"user.ada.{name}", "--noBuild", *arguments)
        found = re.search(r"jediTaskID=(\d+)", printed)
        assert status == 0 and found is not None, printed
        return int(found[1])

    def pbook(self, command: str) -> tuple[int, str]:
        """A command of ``pbook``."""
        return self.run("pbook", "-c", command)

    def _environment(self) -> dict[str, str]:
        (site,) = self.client.glob("lib/python3*/site-packages")
        kept = {name: os.environ[name] for name in ("LANG", "TZ", "NO_PROXY", "no_proxy") if name in os.environ}
        address = f"{self.url}/server/panda"
        own = {
            "HOME": str(self.folder), "PATH": f"{self.client / 'bin'}:/usr/bin:/bin", "VIRTUAL_ENV": str(self.client),
            "PANDA_SYS": str(self.client), "PANDA_PYTHONPATH": str(site),
            "PANDA_CONFIG_ROOT": str(self.folder / ".pathena"), "PANDA_URL": address, "PANDA_URL_SSL": address,
            "PANDACACHE_URL": address, "PANDA_BEHIND_REAL_LB": "1", "PANDA_AUTH": "oidc", "PANDA_AUTH_VO": "myexp",
        }  # fmt: skip
        if self.token:
            (self.folder / "token").write_text(self.token, encoding="ascii")
            own["OIDC_AUTH_TOKEN_FILE"] = str(self.folder / "token")
        return {**kept, **own}
