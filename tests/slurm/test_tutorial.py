"""The afternoon of docs/tutorial/a-small-experiment.md: exactly its commands, with a real Slurm and a real Rucio."""

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
ASKED_AGAIN = ("broker jobs ", "broker job ", "broker outputs ", "broker tasks ", "broker explain ", "broker user ")
"""What asks only, and is asked until it is as the page shows."""
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
WRITTEN = {"hits": 6, "tracks": 6, "fit": 1}
"""Files of the datasets of the first three tasks, by the end of their names."""


@dataclass(frozen=True)
class Step:
    """A file that the page has its reader write, or a command with what it prints."""

    file: str
    command: str
    text: str


def steps() -> Iterator[Step]:
    for block in BLOCK.finditer(PAGE):
        if block["file"]:
            yield Step(block["file"], "", block["text"])
        elif block["kind"] == "console":
            for part in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                yield Step("", command, shown)


class Shell:
    """A shell with a terminal, in the home of the newcomer; ``broker`` and ``rucio`` are those of this environment."""

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
        """The exit status of a command, and what it printed."""
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{{ {command}\n}} < /dev/null\necho {MARK}$?\n".encode())
        self._bash.stdin.flush()
        printed, ends = "", time.monotonic() + COMMAND_WITHIN_S
        while not (found := re.search(rf"{MARK}(\d+)\r?\n", printed)):
            assert time.monotonic() < ends, f"{command}: {printed}"
            if select.select([self._output], [], [], 1.0)[0]:
                printed += os.read(self._output, 65536).decode(errors="replace")
        return int(found[1]), ESCAPE.sub("", printed[: found.start()]).replace("\r", "")

    def close(self) -> None:
        """End the service in its background, then the shell."""
        assert self._bash.stdin is not None
        self.run("kill $(jobs -p); wait")
        self._bash.stdin.close()
        self._bash.wait(30)
        os.close(self._output)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SlurmCluster]:
    folder = tmp_path / "slurm"
    folder.mkdir()
    made = SlurmCluster(folder)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def rucio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RucioServer]:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    folder = tmp_path / "rucio"
    folder.mkdir()
    # nobody asks for virtual placements here
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
    own = ("BROKER_", "XDG_", "RUCIO_", "COV")
    kept = {name: value for name, value in cluster.environment.items() if not name.startswith(own)}
    path = f"{Path(sys.executable).parent}:{kept['PATH']}"
    made = Shell(home, {**kept, "HOME": str(home), "PATH": path, "TERM": "xterm", "NO_COLOR": "1"})
    yield made
    made.close()


def test_the_first_job_is_done_after_a_few_commands_that_begin_with_the_installation() -> None:
    commands = [step.command for step in steps() if step.command]
    assert commands[0].startswith("pip install ")
    assert commands.index(FIRST_JOB_DONE) + 1 <= MOST_COMMANDS


def test_the_afternoon(shell: Shell, home: Path, rucio: RucioServer) -> None:
    port = str(free_port())
    for step in steps():
        if step.file:
            file = Path(step.file.replace(HOME, str(home)))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(step.text.replace(HOME, str(home)).replace(PORT, port), encoding="utf-8")
        elif step.command.startswith("pip install "):
            # it is not in the package index yet: what is asked for is what this environment was made with
            installed = f"{ROOT}[" + step.command.partition("[")[2].rstrip('"')
            shell_line = f'pip install --quiet --dry-run --no-build-isolation "{installed}"'
            status, printed = shell.run(shell_line)
            assert status == 0, printed
        else:
            shows(shell, step, step.command.replace(PORT, port), home)
    are_registered(rucio, home)


def shows(shell: Shell, step: Step, command: str, home: Path) -> None:
    """A command ends well, and prints what the page shows; what only asks is asked until it does."""
    ends, pause = time.monotonic() + SHOWN_WITHIN_S, threading.Event()
    while True:
        status, printed = shell.run(command)
        differs = difference(step.text, printed, home)
        if status == 0 and not differs:
            return
        story = f"{command} ended with {status}; {differs}\n{printed}"
        assert command.startswith(ASKED_AGAIN) and time.monotonic() < ends, story + shell.run("tail -3 serve.log")[1]
        pause.wait(LOOK_EVERY_S)


def difference(shown: str, printed: str, home: Path) -> str:
    """How what was printed differs in shape from what the page shows; empty where it does not.

    A line ``...`` stands for any lines, and at the end of a line for any words.
    """
    lines, at, skips = [shape(line, home) for line in printed.splitlines() if line.strip()], 0, False
    for wanted in [shape(line, home) for line in shown.splitlines() if line.strip()]:
        if wanted == "...":
            skips = True
            continue
        begins = wanted.removesuffix("...")
        fits = [line.startswith(begins) if begins != wanted else line == wanted for line in lines[at:]]
        if True not in fits or not (skips or fits[0]):
            return f"there is no line {wanted}"
        at, skips = at + fits.index(True) + 1, False
    return "" if skips or at == len(lines) else f"there is more: {lines[at]}"


def shape(line: str, home: Path) -> str:
    """A line without its figures, and without how wide columns are."""
    figures = re.sub(r"\d+", "0", line.replace(str(home), HOME))
    return " ".join(re.sub(r"-{2,}", "--", figures).split())


def are_registered(rucio: RucioServer, home: Path) -> None:
    """Rucio has the outputs of the tasks, in closed datasets, at the site, with the size and place that they have."""
    client = rucio.client()
    for number, (name, count) in enumerate(WRITTEN.items()):
        dataset = f"mc.{10_000_000 + number}.{name}"
        assert client.get_metadata("mc", dataset)["is_open"] is False, dataset
        replicas = list(client.list_replicas([{"scope": "mc", "name": dataset}]))
        assert len(replicas) == count, dataset
        for one in replicas:
            (found,) = (home / "data/mc").rglob(one["name"])
            (address,) = one["rses"]["HERE_DISK"]
            assert address.endswith(str(found)) and one["bytes"] == found.stat().st_size > 0, address
        (rule,) = client.list_did_rules("mc", dataset)
        assert rule["rse_expression"] == "HERE_DISK"
