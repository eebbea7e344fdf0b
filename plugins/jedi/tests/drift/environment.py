"""A virtual environment with another panda-server, and all else from that of ``make test-jedi``."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
from pathlib import Path

_REPORTS_NOTHING = {"DISABLE_MM": "1"}


class InstallError(Exception):
    """A panda-server cannot be installed; the message says which, why and what to do."""


def make_environment(server: str, folder: Path) -> Path:
    """Make the environment anew.

    Args:
        server: a release such as ``1.0.4``, or a folder with a checkout of panda-server.
        folder: of the environment.

    Returns:
        Its interpreter.

    Raises:
        InstallError: the server cannot be installed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    packages = Path(_asked(python, "import sysconfig; print(sysconfig.get_path('purelib'))"))
    # what is installed here comes first on the path, so that only panda-server differs
    rest = sysconfig.get_path("purelib")
    (packages / "rest.pth").write_text(f"import site; site.addsitedir({rest!r})\n", encoding="utf-8")
    if not is_path(server):
        _install(python, folder, f"panda-server=={server}", server)
        return python
    with tempfile.TemporaryDirectory(prefix="panda-server-") as copy:
        os.chmod(copy, 0o777)  # noqa: S103 - built as another group
        _install(python, folder, str(copied(Path(server), Path(copy))), server)
    return python


def is_path(server: str) -> bool:
    """Whether a checkout is named, and no release."""
    return "/" in server or Path(server).is_dir()


def copied(checkout: Path, target: Path) -> Path:
    """A copy that the build may write to: of the files that are there, or of the newest commit of a bare repository."""
    copy = target / "source"
    if (checkout / "pyproject.toml").is_file():
        shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git"))
        return copy
    try:
        packed = subprocess.run(["git", "-C", checkout, "archive", "HEAD"], check=True, capture_output=True).stdout  # noqa: S607
    except (OSError, subprocess.CalledProcessError) as error:
        raise InstallError(f"{checkout}: neither a checkout nor a repository of panda-server; name one") from error
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(copy, filter="data")
    return copy


def _install(python: Path, folder: Path, what: str, server: str) -> None:
    # the build refuses the group of root, for which it wants an account of its own
    other_group = ["setpriv", "--regid", "nogroup", "--clear-groups"] if os.getgid() == 0 else []
    command = [*other_group, str(python), "-m", "pip", "install", "--quiet", "--no-deps", what]
    done = subprocess.run(
        command,
        env={**os.environ, **_REPORTS_NOTHING, "VIRTUAL_ENV": str(folder.resolve())},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise InstallError(
            f"panda-server {server} cannot be installed: {why}; name a release that pip finds, or a checkout"
        )


def _asked(python: Path, code: str) -> str:
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def this_python() -> Path:
    """The interpreter of ``make test-jedi``, with the panda-server that the tests are for."""
    return Path(sys.executable)
