"""Runs the commands of docs/tutorial/a-small-experiment.md exactly, with a real Slurm and a real Rucio."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.store.connection.embedded import EmbeddedServer
from tests.docs.source_tree import ROOT
from tests.rucio.conftest import RucioServer
from tests.slurm.slurm_cluster import SlurmCluster, free_port

PAGE = (ROOT / "docs/tutorial/a-small-experiment.md").read_text(encoding="utf-8")
HOME, PORT = "/home/ada", "8642"
MOST_COMMANDS = 12
FIRST_JOB_DONE = "broker jobs --task 10000000"
REPEATABLE = ("broker jobs ", "broker job ", "broker outputs ", "broker tasks ", "broker explain ", "broker user ")
"""Read-only commands, which are repeated until their output is as the page shows."""
COMMAND_WITHIN_S, SHOWN_WITHIN_S, LOOK_EVERY_S = 90.0, 180.0, 1.0
BLOCK = re.compile(
    r"(?:^<!-- file: (?P<file>\S+) -->\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
WIDTH, MARK = 132, "ended-with-"
ESCAPE = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[=>])")
CLIENT = """\
[client]
rucio_host = http://127.0.0.1:{port}
auth_host = http://127.0.0.1:{port}
auth_type = userpass
username = broker
password = secret
account = root
"""
OUTPUT_FILES = {"hits": 6, "tracks": 6, "fit": 1}
"""Number of files in the datasets of the first three tasks, by the ends of their names."""


@dataclass(frozen=True)
class Step:
    """A file that the reader writes, or a command with its expected output."""

    file: str
    command: str
    text: str


def steps() -> Iterator[Step]:
    for block in BLOCK.finditer(PAGE):
        if block["file"]:
            yield Step(block["file"], "", block["text"])
        elif block["kind"] == "console":
            for part in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                yield Step("", command, output)


class Shell:
    """A shell with a terminal in the reader's home; ``broker`` and ``rucio`` come from this environment."""

    def __init__(self, home: Path, environment: dict[str, str]) -> None:
        self._output, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, WIDTH, 0, 0))
        self._bash = subprocess.Popen(
            ["bash", "--norc"],
            cwd=home,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)

    def run(self, command: str) -> tuple[int, str]:
        """Run a command; return its exit status and its output."""
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{{ {command}\n}} < /dev/null\necho {MARK}$?\n".encode())
        self._bash.stdin.flush()
        output, deadline = "", time.monotonic() + COMMAND_WITHIN_S
        while not (match := re.search(rf"{MARK}(\d+)\r?\n", output)):
            assert time.monotonic() < deadline, f"{command}: {output}"
            if select.select([self._output], [], [], 1.0)[0]:
                output += os.read(self._output, 65536).decode(errors="replace")
        return int(match[1]), ESCAPE.sub("", output[: match.start()]).replace("\r", "")

    def close(self) -> None:
        """Stop the background services, then the shell."""
        assert self._bash.stdin is not None
        self.run("kill $(jobs -p); wait")
        self._bash.stdin.close()
        self._bash.wait(30)
        os.close(self._output)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SlurmCluster]:
    folder = tmp_path / "slurm"
    folder.mkdir()
    slurm = SlurmCluster(folder)
    slurm.start()
    yield slurm
    slurm.stop()


@pytest.fixture
def rucio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RucioServer]:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    folder = tmp_path / "rucio"
    folder.mkdir()
    # virtual placements are not used here
    server = RucioServer(folder, "http://127.0.0.1:1/")
    yield server
    server.kill()


@pytest.fixture
def home(rucio: RucioServer) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ada-"))
    folder.chmod(0o755)
    (folder / "rucio.cfg").write_text(CLIENT.format(port=rucio.port), encoding="utf-8")
    yield folder
    EmbeddedServer(folder / ".local/share/gridbroker").shut_down()


@pytest.fixture
def shell(home: Path, cluster: SlurmCluster) -> Iterator[Shell]:
    removed_prefixes = ("BROKER_", "XDG_", "RUCIO_", "COV")
    inherited = {name: value for name, value in cluster.environment.items() if not name.startswith(removed_prefixes)}
    path = f"{Path(sys.executable).parent}:{inherited['PATH']}"
    reader_shell = Shell(home, {**inherited, "HOME": str(home), "PATH": path, "TERM": "xterm", "NO_COLOR": "1"})
    yield reader_shell
    reader_shell.close()


def test_the_first_job_is_done_a_few_commands_after_the_installation() -> None:
    commands = [step.command for step in steps() if step.command]
    assert commands[0].startswith("pip install ")
    assert commands.index(FIRST_JOB_DONE) + 1 <= MOST_COMMANDS


def test_the_tutorial(shell: Shell, home: Path, rucio: RucioServer) -> None:
    port = str(free_port())
    for step in steps():
        if step.file:
            file = Path(step.file.replace(HOME, str(home)))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(step.text.replace(HOME, str(home)).replace(PORT, port), encoding="utf-8")
        elif step.command.startswith("pip install "):
            # not in the package index yet: install the checkout of this environment with the same extras
            requirement = f"{ROOT}[" + step.command.partition("[")[2].rstrip('"')
            shell_line = f'pip install --quiet --dry-run --no-build-isolation "{requirement}"'
            status, output = shell.run(shell_line)
            assert status == 0, output
        else:
            run_until_shown(shell, step, step.command.replace(PORT, port), home)
    check_registered_outputs(rucio, home)


def run_until_shown(shell: Shell, step: Step, command: str, home: Path) -> None:
    """Check that a command succeeds with the output of the page; read-only commands are repeated until it does."""
    deadline, pause = time.monotonic() + SHOWN_WITHIN_S, threading.Event()
    while True:
        status, output = shell.run(command)
        mismatch = difference(step.text, output, home)
        if status == 0 and not mismatch:
            return
        story = f"{command} ended with {status}; {mismatch}\n{output}"
        assert command.startswith(REPEATABLE) and time.monotonic() < deadline, story + shell.run("tail -3 serve.log")[1]
        pause.wait(LOOK_EVERY_S)


def difference(page_text: str, output: str, home: Path) -> str:
    """The difference in shape between the output and the page, empty if there is none.

    A line ``...`` matches any lines; ``...`` at the end of a line matches any words.
    """
    lines, position, skips = [shape(line, home) for line in output.splitlines() if line.strip()], 0, False
    for expected in [shape(line, home) for line in page_text.splitlines() if line.strip()]:
        if expected == "...":
            skips = True
            continue
        prefix = expected.removesuffix("...")
        fits = [line.startswith(prefix) if prefix != expected else line == expected for line in lines[position:]]
        if True not in fits or not (skips or fits[0]):
            return f"there is no line {expected}"
        position, skips = position + fits.index(True) + 1, False
    return "" if skips or position == len(lines) else f"there is more: {lines[position]}"


def shape(line: str, home: Path) -> str:
    """A line without its figures and without the widths of its columns."""
    figures = re.sub(r"\d+", "0", line.replace(str(home), HOME))
    return " ".join(re.sub(r"-{2,}", "--", figures).split())


def check_registered_outputs(rucio: RucioServer, home: Path) -> None:
    """Check that Rucio has the outputs of the tasks in closed datasets at the site, with their sizes and places."""
    client = rucio.client()
    for number, (name, count) in enumerate(OUTPUT_FILES.items()):
        dataset = f"mc.{10_000_000 + number}.{name}"
        assert client.get_metadata("mc", dataset)["is_open"] is False, dataset
        replicas = list(client.list_replicas([{"scope": "mc", "name": dataset}]))
        assert len(replicas) == count, dataset
        for replica in replicas:
            (file,) = (home / "data/mc").rglob(replica["name"])
            (address,) = replica["rses"]["HERE_DISK"]
            assert address.endswith(str(file)) and replica["bytes"] == file.stat().st_size > 0, address
        (rule,) = client.list_did_rules("mc", dataset)
        assert rule["rse_expression"] == "HERE_DISK"
