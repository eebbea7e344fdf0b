"""A Slurm with one node on this machine: munged, slurmctld and slurmd run without systemd and cgroups.

Source: Slurm documentation, slurm.conf.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

CONFIGURATION = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/c.pid
SlurmdPidFile={folder}/d.pid
SlurmctldLogFile={folder}/log/c
SlurmdLogFile={folder}/log/d
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2
SlurmdTimeout=10
KillWait=2
ReturnToService=2
MinJobAge=300
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory={memory_mb} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel")
UP_WITHIN_S = 60.0


def missing_programs() -> list[str]:
    """The programs that are not installed."""
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class SlurmCluster:
    """The daemons with their own folder; each is stopped through its process."""

    def __init__(self, folder: Path, cores: int = 2, memory_mb: int = 2000) -> None:
        self.folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("state", "spool", "log"):
            (folder / name).mkdir()
        values = {
            "host": socket.gethostname().partition(".")[0],
            "user": subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip(),
            "folder": folder,
            "controller": free_port(),
            "node": free_port(),
            "cores": cores,
            "memory_mb": memory_mb,
        }
        self._node = str(values["host"])
        self.configuration = folder / "slurm.conf"
        self.configuration.write_text(CONFIGURATION.format(**values), encoding="utf-8")

    @property
    def environment(self) -> dict[str, str]:
        """The environment with which its clients find it."""
        return {**os.environ, "SLURM_CONF": str(self.configuration), "PATH": os.environ["PATH"] + ":/usr/sbin"}

    def start(self) -> None:
        """Start all daemons and wait until the node is idle."""
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        paths = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munge.pid", "seed-file": "munge.seed"}
        words = [f"--{name}={self.folder / path}" for name, path in {**paths, "log-file": "log/munge"}.items()]
        self._begin("munged", "--foreground", "--force", *words)
        self._until(lambda: (self.folder / "munge.sock").exists())
        self._begin("slurmctld", "-D", "-f", str(self.configuration))
        self.start_node()

    def start_node(self) -> None:
        """Start slurmd and wait until the node takes jobs."""
        self._begin("slurmd", "-D", "-f", str(self.configuration))
        self._until(self._takes_jobs)

    def _takes_jobs(self) -> bool:
        """Whether the node takes jobs; a drained node is resumed, as an administrator would do."""
        state = self.output_of("sinfo", "--noheader", "--format=%T").strip()
        if state.startswith(("drain", "down")):
            self.output_of("scontrol", "update", f"nodename={self._node}", "state=resume")
        return state in ("idle", "mixed", "allocated", "completing")

    def kill_node(self) -> None:
        """Kill slurmd and all jobs on the node, as if the node had died."""
        for job in self.output_of("squeue", "--noheader", "--states=running", "--format=%i").split():
            for line in self.output_of("scontrol", "listpids", job).splitlines()[1:]:
                subprocess.run(["kill", "-9", line.split()[0]], check=False, capture_output=True)
        self._end("slurmd")

    def output_of(self, *words: str) -> str:
        """The output of a client, empty while the controller does not answer."""
        result = subprocess.run(
            list(words), env=self.environment, capture_output=True, text=True, check=False, timeout=60
        )
        return result.stdout if result.returncode == 0 else ""

    def stop(self) -> None:
        """Stop all daemons in reverse order."""
        self.output_of("scancel", "--me")
        for name in ("slurmd", "slurmctld", "munged"):
            self._end(name)

    def _begin(self, name: str, *words: str) -> None:
        program = shutil.which(name, path=self.environment["PATH"])
        assert program is not None
        with (self.folder / f"{name}.out").open("ab") as output:
            self._processes[name] = subprocess.Popen(
                [program, *words], env=self.environment, stdout=output, stderr=output, start_new_session=True
            )

    def _end(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is not None:
            process.kill()
            process.wait(20)

    def _until(self, holds: Callable[[], bool]) -> None:
        deadline, pause = time.monotonic() + UP_WITHIN_S, threading.Event()
        while not holds():
            logs = "\n".join(path.read_text()[-600:] for path in sorted((self.folder / "log").glob("*")))
            assert time.monotonic() < deadline, (
                f"Slurm is not up within {UP_WITHIN_S:g} s: {self.output_of('sinfo')}\n{logs}"
            )
            pause.wait(0.3)
