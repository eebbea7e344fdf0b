"""A user of panda-client in a shell, with the environment of docs/how-to/use-panda-client.md and a directory."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

WITHIN_S = 60


@dataclass
class User:
    """A user of panda-client.

    Attributes:
        client: the folder of the environment with panda-client.
        url: the address of the server.
        token: the token that the client presents; with an empty token the client asks for one.
        folder: the folder with the user's program and the configuration of the client.
    """

    client: Path
    url: str
    token: str
    folder: Path

    def write(self, name: str, *lines: str) -> None:
        """Write a program into the directory."""
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        (work / name).write_text("\n".join(("#!/bin/sh", *lines, "")), encoding="utf-8")
        (work / name).chmod(0o755)

    def run(self, program: str, *arguments: str, stdin: str = "") -> tuple[int, str]:
        """Run a command of panda-client; return its exit status and its output."""
        result = subprocess.run(
            [str(self.client / "bin" / program), *arguments],
            cwd=self.folder / "work",
            env=self._environment(),
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )
        return result.returncode, result.stdout

    def prun(self, command: str, name: str, *arguments: str) -> int:
        """Submit a task with ``prun``; return its number."""
        status, output = self.run("prun", "--exec", command, "--outDS", f"user.ada.{name}", "--noBuild", *arguments)
        match = re.search(r"jediTaskID=(\d+)", output)
        assert status == 0 and match is not None, output
        return int(match[1])

    def pbook(self, command: str) -> tuple[int, str]:
        """Run a command of ``pbook``."""
        return self.run("pbook", "-c", command)

    def _environment(self) -> dict[str, str]:
        (site,) = self.client.glob("lib/python3*/site-packages")
        inherited = {name: os.environ[name] for name in ("LANG", "TZ", "NO_PROXY", "no_proxy") if name in os.environ}
        address = f"{self.url}/server/panda"
        client_variables = {
            "HOME": str(self.folder), "PATH": f"{self.client / 'bin'}:/usr/bin:/bin", "VIRTUAL_ENV": str(self.client),
            "PANDA_SYS": str(self.client), "PANDA_PYTHONPATH": str(site),
            "PANDA_CONFIG_ROOT": str(self.folder / ".pathena"), "PANDA_URL": address, "PANDA_URL_SSL": address,
            "PANDACACHE_URL": address, "PANDA_BEHIND_REAL_LB": "1", "PANDA_AUTH": "oidc", "PANDA_AUTH_VO": "myexp",
        }  # fmt: skip
        if self.token:
            (self.folder / "token").write_text(self.token, encoding="ascii")
            client_variables["OIDC_AUTH_TOKEN_FILE"] = str(self.folder / "token")
        return {**inherited, **client_variables}
