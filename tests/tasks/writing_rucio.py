"""A fake Rucio that accepts and refuses calls as the real one does (measured with 41.5.1), and a task with output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from agents.feeds.rucio_connection import RucioOptions
from agents.service.configuration import ProcessSettings
from agents.tasks.rucio_output import RucioOutputAgent, RucioOutputOptions
from broker.feeds.model.rucio.answers import Did
from broker.feeds.model.rucio.questions import RucioUnavailable
from broker.feeds.model.rucio.writing import (
    CLOSED,
    MISMATCH,
    NO_DID,
    NO_RSE,
    NOT_VALID,
    DatasetState,
    RucioRefused,
    Rule,
)
from broker.store.connection.database import Database
from tests.agents.pilots.test_completion import held, report
from tests.pilots.panda.pilot_grid import NOW, content, dataset, fill, record, task

MOST_FILES = 500
PLACES = (("DISK", "SITE"), ("FAR", "NUC"))
"""Endpoints and their sites."""
LATER = NOW + timedelta(minutes=1)


@dataclass
class FakeWriter:
    """Datasets, rules, containers and files by DID. ``calls`` lists all calls in order; ``before`` runs before each.

    ``away``: every call fails; ``rses``: known RSEs; ``not_taken``: file names refused as invalid.
    """

    rules: dict[Did, Rule | None] = field(default_factory=dict)
    held: dict[Did, dict[Did, Mapping[str, Any]]] = field(default_factory=dict)
    files: dict[Did, Mapping[str, Any]] = field(default_factory=dict)
    replicas: set[tuple[str, Did]] = field(default_factory=set)
    containers: dict[Did, set[Did]] = field(default_factory=dict)
    closed: set[Did] = field(default_factory=set)
    rses: tuple[str, ...] = ("DISK", "FAR")
    not_taken: set[str] = field(default_factory=set)
    away: bool = False
    calls: list[str] = field(default_factory=list)
    before: Callable[[str], object] = lambda call: None

    def _tell(self, call: str) -> None:
        self.before(call)
        self.calls.append(call)
        if self.away:
            raise RucioUnavailable("ConnectionError: refused", "a test")

    def add_dataset(self, did: Did, rule: Rule | None) -> None:
        self._tell("add_dataset")
        self.held.setdefault(did, {})
        self.rules.setdefault(did, rule)

    def add_to_container(self, container: Did, did: Did) -> None:
        self._tell("add_to_container")
        self.containers.setdefault(container, set()).add(did)

    def add_files(self, did: Did, rse: str, files: Sequence[Mapping[str, Any]]) -> None:
        self._tell("add_files")
        assert len(files) <= MOST_FILES
        names = [(file["scope"], file["name"]) for file in files]
        if any(name in self.not_taken for _, name in names):
            raise RucioRefused(NOT_VALID, "does not match")
        if did not in self.held:
            raise RucioRefused(NO_DID, "not found")
        if rse not in self.rses:
            raise RucioRefused(NO_RSE, f"RSE {rse} cannot be found")
        if did in self.closed:
            raise RucioRefused(CLOSED, "is closed")
        for name, file in zip(names, files, strict=True):
            known_file = self.files.get(name, file)
            if known_file["bytes"] != file["bytes"] or known_file.get("adler32") != file.get("adler32"):
                raise RucioRefused(MISMATCH, f"mismatch for {name}")
        for name, file in zip(names, files, strict=True):
            self.files.setdefault(name, {**file, **file.get("meta", {})})
            self.held[did][name] = self.files[name]
            self.replicas.add((rse, name))

    def about_files(self, dids: Sequence[Did]) -> dict[Did, Mapping[str, Any]]:
        self._tell("about_files")
        return {did: self.files[did] for did in dids if did in self.files}

    def files_of(self, did: Did) -> Iterator[Mapping[str, Any]]:
        self._tell("files_of")
        return iter([{**file, "scope": scope, "name": name} for (scope, name), file in self.held[did].items()])

    def state_of(self, did: Did) -> DatasetState:
        self._tell("state_of")
        inside = self.held[did].values()
        return DatasetState(True, did not in self.closed, len(inside), sum(file["bytes"] for file in inside))

    def set_open(self, did: Did, is_open: bool) -> None:
        self._tell("set_open")
        (self.closed.discard if is_open else self.closed.add)(did)


def agent(rucio: FakeWriter, **options: Any) -> RucioOutputAgent:
    """The agent, connected to ``rucio``."""

    def connect(_: RucioOptions) -> FakeWriter:
        return rucio

    return RucioOutputAgent(RucioOutputOptions(**options), ProcessSettings(), connect)


def about(job: int, **changed: Any) -> dict[str, Any]:
    """The pilot's report on the output file of a job."""
    return {"guid": f"{job:032x}", "fsize": 100 + job, "adler32": f"{job:08x}", **changed}


def reported(
    database: Database,
    jobs: int,
    *,
    files: int | None = None,
    name: str = "mc:mc.out",
    container: str | None = None,
    stem: str = "out",
    queues: Sequence[str] = ("Q",),
    changed: Mapping[int, Mapping[str, Any]] | None = None,
) -> None:
    """Insert task 1 with ``files`` input files and ``jobs`` jobs; each pilot has reported one output file."""
    fill(
        database,
        [held(number, computingsite=queues[number % len(queues)]) for number in range(1, jobs + 1)],
        jedi_tasks=[task(nucleus="NUC", vo="mine", username="ada")],
        jedi_datasets=[
            dataset(nfiles=files or jobs, nfilestobeused=files or jobs, nfilesused=jobs),
            dataset(11, "output", nfiles=jobs, datasetname=name, containername=container),
        ],
        jedi_dataset_contents=[content(number, number) for number in range(1, jobs + 1)]
        + [
            content(1000 + number, number, 11, lfn=f"{stem}.{number}", type="output", status="defined", scope="mc")
            for number in range(1, jobs + 1)
        ],
        filestable4=[record(number, number) for number in range(1, jobs + 1)]
        + [
            record(number, 1000 + number, 11, lfn=f"{stem}.{number}", type="output", fsize=None)
            for number in range(1, jobs + 1)
        ],
        job_output_report=[
            report(number, data={f"{stem}.{number}": about(number, **(changed or {}).get(number, {}))})
            for number in range(1, jobs + 1)
        ],
        ddm_endpoint=[{"ddm_endpoint_name": rse, "site_name": site} for rse, site in PLACES],
        panda_ddm_relation=[
            {"panda_site_name": queue, "ddm_endpoint_name": rse, "roles": "read_lan,write_lan", "scope": "default",
             "default_write": "Y", "default_read": "Y"}
            for queue, rse in (("Q", "DISK"), ("R", "FAR"))
        ],
    )  # fmt: skip
    with database.begin() as connection:
        connection.exec_driver_sql("TRUNCATE broker.rucio_datasets, broker.rucio_files")
        connection.exec_driver_sql(
            "INSERT INTO broker.task_outputs (jeditaskid, position, datasetid, type, lfn, scope)"
            " VALUES (1, 0, 11, 'output', 'out.${SN}', 'mc')"
        )
