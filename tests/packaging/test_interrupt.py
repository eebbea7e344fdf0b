"""An interrupted run of the tests leaves no PostgreSQL behind."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WAITING = """
import subprocess
import sys
import threading
from pathlib import Path

import pytest

CLIENT = "import psycopg, sys; psycopg.connect(sys.argv[1]).execute('SELECT pg_sleep(600)')"

@pytest.mark.parametrize("number", [0, 1])
def test_waits(server_url, number):
    address = server_url.replace("postgresql+psycopg", "postgresql")
    subprocess.Popen([sys.executable, "-c", CLIENT, address], start_new_session=True)
    Path(FOLDER, f"{number}").write_text("")
    threading.Event().wait()
"""
"""Programs started by tests survive an interrupt, and a server does not stop by itself while they use it."""
PATIENCE_S = 60.0


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder that the account of the server can reach, with a path short enough for its sockets."""
    folder = Path(tempfile.mkdtemp(prefix="interrupt-"))
    folder.chmod(0o755)
    yield folder
    for pid in servers_below(folder):
        os.kill(pid, signal.SIGINT)
    shutil.rmtree(folder, ignore_errors=True)


def wait_for(paths: list[Path], run: subprocess.Popen[str]) -> None:
    deadline, pacer = time.monotonic() + PATIENCE_S, threading.Event()
    while not all(path.exists() for path in paths):
        assert run.poll() is None and time.monotonic() < deadline
        pacer.wait(0.1)


def servers_below(folder: Path) -> list[int]:
    """The PostgreSQL servers with data below a folder, even if the data have been deleted."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"-D" in words and any(word.startswith(os.fsencode(folder)) for word in words):
                pids.append(int(process.name))
    return pids


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_an_interrupt_stops_every_server(short_folder: Path, workers: int) -> None:
    (short_folder / "test_it.py").write_text(WAITING.replace("FOLDER", repr(str(short_folder))), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "BROKER_"))}
    run = subprocess.Popen(
        [*command, "-n", str(workers), str(short_folder)],
        cwd=short_folder,
        env={**environment, "PYTHONPATH": str(ROOT), "TMPDIR": str(short_folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # a shell makes background processes ignore the signal, and their children inherit that
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    try:
        wait_for([short_folder / str(number) for number in range(max(1, workers))], run)
        assert len(servers_below(short_folder)) == 1
        os.killpg(run.pid, signal.SIGINT)  # as Ctrl-C on a terminal
        output, _ = run.communicate(timeout=PATIENCE_S)
        deadline, pacer = time.monotonic() + PATIENCE_S, threading.Event()
        while servers_below(short_folder) and time.monotonic() < deadline:
            pacer.wait(0.1)  # the last servers are stopping
        assert servers_below(short_folder) == [], output
    finally:
        run.kill()
        run.communicate()
