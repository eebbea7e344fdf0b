"""Batch systems behind PSI/J: submit, find by name, poll and cancel pilots. Requires the extra ``submitter``.

Source: PSI/J, psij-python 0.9; Slurm, squeue; PBS, qselect; LSF, bjobs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from broker.errors import Refused

MB = 10**6
LOOK_WITHIN_S = 20.0
FINAL = ("COMPLETED", "FAILED", "CANCELED")
MARK = "GRIDBROKER_JOB_NAME"
"""Variable of a pilot's environment that holds the name of its job."""

_BY_NAME: Mapping[str, Callable[[str], list[str]]] = {
    "slurm": lambda name: ["squeue", "--me", "--noheader", "--states=all", "--format=%i", f"--name={name}"],
    "pbs": lambda name: ["qselect", "-x", "-N", name],
    "pbs_classic": lambda name: ["qselect", "-N", name],
    "lsf": lambda name: ["bjobs", "-a", "-noheader", "-o", "jobid", "-J", name],
}


_NAME_OPTIONS = {"slurm": "job-name", "pbs": "N", "lsf": "J"}


class BatchFailed(Refused):
    """The batch system did not carry out the request; the text is its own."""


@dataclass(frozen=True)
class PilotJob:
    """A pilot to submit as a batch job.

    Attributes:
        name: name of the batch job.
        command: command with its arguments.
        environment: environment of the pilot.
        queue: partition or queue of the batch system; None: its default.
        cores: cores of the slot.
        memory_mb: memory of the slot; 0: not requested.
        walltime_s: longest run; 0: not requested.
        folder: directory for the output of the pilot.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    queue: str | None
    cores: int
    memory_mb: float
    walltime_s: float
    folder: Path


class BatchSystem(Protocol):
    """What the submitter needs of a batch system; every call may raise :class:`BatchFailed`."""

    def submit(self, job: PilotJob) -> str:
        """Submit a pilot and return the id of its batch job."""

    def find(self, name: str) -> str | None:
        """Return the id of the batch job with this name; None if there is none."""

    def state(self, native: str) -> str:
        """Return QUEUED, ACTIVE, COMPLETED, FAILED or CANCELED; COMPLETED also where the id is no longer known."""

    def cancel(self, native: str) -> None:
        """End a batch job."""


class PsiJ:
    """A batch system reached through PSI/J.

    Args:
        executor: name of the PSI/J executor: slurm, pbs, lsf, local.
        poll_s: seconds between two polls of the job states.
    """

    def __init__(self, executor: str, poll_s: float) -> None:
        try:
            import psij
        except ImportError as error:
            raise BatchFailed(
                f"PSI/J cannot be imported: {error}", "submitter", 'install it: pip install "gridbroker[submitter]"'
            ) from error
        self._psij: Any = psij
        self._name = executor
        self._jobs: dict[str, Any] = {}
        try:
            self._executor = psij.JobExecutor.get_instance(executor)
        except ValueError as error:
            raise BatchFailed(str(error), f"executor {executor}", "name one of PSI/J's executors") from error
        config: Any = getattr(self._executor, "config", None)
        if hasattr(config, "queue_polling_interval"):
            config.queue_polling_interval = poll_s
            config.initial_queue_polling_delay = min(poll_s, 2)

    def submit(self, job: PilotJob) -> str:
        """Submit a pilot and return the id of its batch job."""
        psij_job = self._psij.Job(self._spec(job))
        with self._translated_errors():
            self._executor.submit(psij_job)
        native = str(psij_job.native_id)
        self._jobs[native] = psij_job
        return native

    def find(self, name: str) -> str | None:
        """Find a job by its name; on this machine by the variable of its environment."""
        if self._name == "local":
            return next(iter(_processes_of(name)), None)
        command = _BY_NAME.get(self._name)
        if command is None:
            raise BatchFailed("jobs cannot be found by name", f"executor {self._name}", "end the pilot by hand")
        words = command(name)
        if shutil.which(words[0]) is None:
            raise BatchFailed(f"{words[0]} is not installed", f"executor {self._name}", "install its client")
        done = subprocess.run(words, capture_output=True, text=True, timeout=LOOK_WITHIN_S, check=False)  # noqa: S603
        if done.returncode != 0:
            raise BatchFailed(done.stderr.strip()[:300], " ".join(words), "see whether the batch system answers")
        return next(iter(done.stdout.split()), None)

    def state(self, native: str) -> str:
        """Return the state that PSI/J saw last."""
        return str(self._known(native).status.state.name)

    def cancel(self, native: str) -> None:
        """End a batch job that is not over."""
        job = self._known(native)
        if not job.status.final:
            with self._translated_errors():
                job.cancel()

    def _known(self, native: str) -> Any:
        """The job with this id; a job of an earlier process is attached first."""
        if native not in self._jobs:
            job = self._psij.Job()
            with self._translated_errors():
                self._executor.attach(job, native)
            self._jobs[native] = job
        return self._jobs[native]

    def _spec(self, job: PilotJob) -> Any:
        attributes = self._psij.JobAttributes(queue_name=job.queue)
        # PSI/J names a batch job after its own number; the options of the batch system itself come after that
        attributes.custom_attributes = {
            f"{system}.{option}": job.name for system, option in _NAME_OPTIONS.items() if self._name.startswith(system)
        }
        if job.walltime_s > 0:
            attributes.duration = timedelta(seconds=job.walltime_s)
        resources = self._psij.ResourceSpecV1(process_count=1, cpu_cores_per_process=job.cores)
        if job.memory_mb > 0:
            resources.memory = int(job.memory_mb * MB)
        return self._psij.JobSpec(
            name=job.name,
            executable=job.command[0],
            arguments=list(job.command[1:]),
            directory=job.folder,
            environment={**job.environment, MARK: job.name},
            stdout_path=job.folder / f"{job.name}.out",
            stderr_path=job.folder / f"{job.name}.err",
            resources=resources,
            attributes=attributes,
            launcher="single",
        )

    def _translated_errors(self) -> _ErrorTranslation:
        return _ErrorTranslation(self._psij, self._name)


class _ErrorTranslation:
    """Turns the errors of PSI/J in a block into :class:`BatchFailed`."""

    def __init__(self, psij: Any, executor: str) -> None:
        self._errors = (psij.SubmitException, psij.InvalidJobException, OSError)
        self._executor = executor

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._errors):
            text = " ".join(str(error).split())[:300] or type(error).__name__
            raise BatchFailed(text, f"executor {self._executor}", "see the log of the batch system") from error


def _processes_of(name: str) -> list[str]:
    """Ids of the processes on this machine that were started as a pilot with this name."""
    marker, process_ids = f"{MARK}={name}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended, or is somebody else's
        if marker in variables and int(folder.name) != os.getpid():
            process_ids.append(folder.name)
    return sorted(process_ids, key=int)
