"""What the agents that end jobs share: their options, the order in which jobs are ended, and the writing in batches.

:class:`EndingOptions` says whether PanDA or this broker ends jobs, and how PanDA's server is called.
:func:`least_loss_first` orders waiting jobs, those that lose least first; :func:`carry_out` ends jobs batch by batch in
the order given.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, Field

from agents.alongside.panda_api import PandaServer
from agents.service import fault_points
from agents.service.base import CycleContext
from agents.service.brake import BrakedOptions
from broker.errors import Refused
from broker.fetching.documents import Credentials, FetchTerms, trusted_by
from broker.formats.model.vacate import least_waste_first
from broker.formats.statements import status_reports
from broker.lifecycle.model.jobs import WaitingJob, youngest_first
from broker.lifecycle.statements.actions import ActionContext, ActOutcome, JobAction, act

Way = Literal["panda_api", "sql"]
#: An answer is a list of booleans.
_ANSWER_BYTES = 2**20


class PandaApiOptions(BaseModel):
    """PanDA's server. Credentials are named by file, never written here.

    Attributes:
        address: of the API, up to what ``/v1`` follows.
        bearer_token_file: file with a token that has the production role; read anew at each use.
        origin: VO and role of the token, such as ``atlas:production``, for the header ``Origin``.
        client_certificate: PEM file, with its key unless ``client_key`` is set; read anew at each use.
        client_key: PEM file.
        ca_file: certificates to trust in place of the system's; else SSL_CERT_FILE and the like are followed.
        jobs_of_a_request: maximum number of jobs in a request.
        requests_per_s: maximum number of requests per second.
        time_limit_s: of a request.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    address: str = Field(pattern=r"^https?://")
    bearer_token_file: Path | None = None
    origin: str | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None
    ca_file: Path | None = None
    jobs_of_a_request: int = Field(default=100, ge=1, le=1000)
    requests_per_s: float = Field(default=1.0, gt=0, le=100)
    time_limit_s: float = Field(default=60.0, gt=0, le=600)

    def server(self) -> PandaServer:
        """The address of PanDA's server, and the terms of requests to it."""
        ca_file, ca_folder = (self.ca_file, None) if self.ca_file is not None else trusted_by(os.environ)
        credentials = Credentials(self.bearer_token_file, self.client_certificate, self.client_key)
        terms = FetchTerms(
            time_limit_s=self.time_limit_s,
            max_bytes=_ANSWER_BYTES,
            credentials=credentials,
            ca_file=ca_file,
            ca_folder=ca_folder,
        )
        return PandaServer(self.address, terms, self.origin, self.requests_per_s)


class EndingOptions(BrakedOptions):
    """Options of an agent that ends jobs.

    Attributes:
        through: jobs are ended by PanDA's server (``panda_api``), or rows are written (``sql``); ``auto``: written
            where the jobs are created here, the server alongside PanDA.
        panda_api: the server.
    """

    through: Literal["auto", "panda_api", "sql"] = "auto"
    panda_api: PandaApiOptions | None = None

    def way(self, standalone: bool) -> Way:
        """The way in which jobs are ended; ``standalone``: the jobs are made by this broker."""
        return ("sql" if standalone else "panda_api") if self.through == "auto" else self.through

    def server(self, agent: str) -> PandaApiOptions:
        """The server that ends jobs.

        Raises:
            Refused: none is configured.
        """
        if self.panda_api is None:
            remedy = "name it in its options: panda_api: {address: https://..., bearer_token_file: ...}"
            raise Refused("alongside PanDA jobs are ended through its API, and none is named", agent, remedy)
        return self.panda_api


JOBS_OF_A_BATCH = 1000


def least_loss_first(connection: sa.Connection, jobs: Sequence[WaitingJob], now: datetime) -> list[int]:
    """The order in which jobs are taken back: never started before started, then reported waste, then the youngest."""
    stats = status_reports.stats(connection, [job.pandaid for job in jobs], now)
    return [pandaid for group in youngest_first(jobs) for pandaid in least_waste_first(group, stats)]


@dataclass(frozen=True)
class MoveOutcome(ActOutcome):
    """The outcome for the jobs to be moved, in one batch or many, with ``notes`` for operators."""

    notes: tuple[str, ...] = ()

    def counts_of(self, pandaids: Iterable[int]) -> tuple[int, int]:
        """How many of these jobs were moved, and how many were skipped."""
        jobs = set(pandaids)
        return len(jobs.intersection(self.acted)), len(jobs.intersection(self.skipped))


def carry_out(
    context: CycleContext, moves: Sequence[JobAction], by: ActionContext, jobs_of_a_batch: int = JOBS_OF_A_BATCH
) -> MoveOutcome:
    """End jobs in order, batch by batch; a dry run ends none."""
    acted: set[int] = set()
    skipped: set[int] = set()
    files = files_lost = 0
    if not context.writes:
        return MoveOutcome()
    for start in range(0, len(moves), jobs_of_a_batch):
        context.check()
        fault_points.reach("before_write")
        with context.writing() as connection:
            outcome = act(connection, moves[start : start + jobs_of_a_batch], by)
            fault_points.reach("after_write_before_commit")
        fault_points.reach("after_commit")
        acted.update(outcome.acted)
        skipped.update(outcome.skipped)
        files += outcome.files
        files_lost += outcome.files_lost
    return MoveOutcome(tuple(sorted(acted)), tuple(sorted(skipped)), files, files_lost)
